//! When a failed attempt may be tried again.

use crate::ids::Hash16;
use crate::ir::{Retry, RetrySchedule};
use crate::time::Millis;

/// The wait before attempt `next` (2 is the first retry), or `None` when the policy is spent.
///
/// Random waits come from the step id, so a fold of the journal and a second node agree.
pub fn delay_ms(
    retry: &Retry,
    next: u32,
    first_at: Millis,
    now: Millis,
    salt: Hash16,
    attempts_max: u32,
) -> Option<i64> {
    if next > retry.max_attempts.unwrap_or(attempts_max).min(attempts_max) {
        return None;
    }
    let delay = match retry.schedule {
        RetrySchedule::Constant { interval_ms } => interval_ms,
        RetrySchedule::Linear { interval_ms, max_interval_ms } => {
            interval_ms.saturating_mul(i64::from(next.saturating_sub(1))).min(max_interval_ms)
        }
        RetrySchedule::Exponential { interval_ms, max_interval_ms, factor } => {
            let grown = interval_ms as f64 * factor.powi(next.saturating_sub(2) as i32);
            if grown.is_finite() { (grown as i64).min(max_interval_ms) } else { max_interval_ms }
        }
        RetrySchedule::Random { min_interval_ms, max_interval_ms } => {
            let digest = Hash16::of(&[&salt.0, &next.to_be_bytes()]);
            let mut eight = [0u8; 8];
            eight.copy_from_slice(&digest.0[..8]);
            let span = max_interval_ms.saturating_sub(min_interval_ms).max(0) as u64 + 1;
            min_interval_ms + (u64::from_be_bytes(eight) % span) as i64
        }
    }
    .max(0);
    match retry.max_duration_ms {
        Some(max) if now.plus(delay).since(first_at) > max => None,
        _ => Some(delay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(schedule: RetrySchedule) -> Retry {
        Retry { schedule, max_attempts: Some(4), max_duration_ms: None, warning_on_retry: false, new_execution: false }
    }

    fn delays(retry: &Retry) -> Vec<Option<i64>> {
        (2..=6).map(|next| delay_ms(retry, next, Millis(0), Millis(0), Hash16([7; 16]), 100)).collect()
    }

    #[test]
    fn constant_linear_exponential_and_random() {
        assert_eq!(delays(&retry(RetrySchedule::Constant { interval_ms: 5 })), [Some(5), Some(5), Some(5), None, None]);
        let linear = RetrySchedule::Linear { interval_ms: 100, max_interval_ms: 250 };
        assert_eq!(delays(&retry(linear)), [Some(100), Some(200), Some(250), None, None]);
        let exponential = RetrySchedule::Exponential { interval_ms: 100, max_interval_ms: 250, factor: 2.0 };
        assert_eq!(delays(&retry(exponential)), [Some(100), Some(200), Some(250), None, None]);
        let random = retry(RetrySchedule::Random { min_interval_ms: 10, max_interval_ms: 20 });
        for delay in delays(&random).into_iter().flatten() {
            assert!((10..=20).contains(&delay));
        }
        assert_eq!(delays(&random), delays(&random), "the same step draws the same waits");
    }

    #[test]
    fn max_duration_ends_the_retries() {
        let mut policy = retry(RetrySchedule::Constant { interval_ms: 10 });
        policy.max_duration_ms = Some(100);
        assert_eq!(delay_ms(&policy, 2, Millis(0), Millis(90), Hash16([0; 16]), 100), Some(10));
        assert_eq!(delay_ms(&policy, 2, Millis(0), Millis(91), Hash16([0; 16]), 100), None);
    }

    #[test]
    fn the_limit_caps_an_open_policy() {
        let mut policy = retry(RetrySchedule::Constant { interval_ms: 1 });
        policy.max_attempts = None;
        assert_eq!(delay_ms(&policy, 100, Millis(0), Millis(0), Hash16([0; 16]), 100), Some(1));
        assert_eq!(delay_ms(&policy, 101, Millis(0), Millis(0), Hash16([0; 16]), 100), None);
    }
}
