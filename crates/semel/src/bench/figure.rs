//! One measured figure.

use super::usage::Used;
use serde_json::{Value as Json, json};
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Microseconds of each operation.
    took: Vec<u32>,
    time: Duration,
    /// Processor time of the server, or of whoever did the work.
    cpu: Duration,
    /// Processor time of the database, where it is a process of this machine.
    database_cpu: Duration,
}

impl Figure {
    pub fn new(took: Vec<u32>, time: Duration) -> Figure {
        Figure { took, time, cpu: Duration::ZERO, database_cpu: Duration::ZERO }
    }

    pub fn used(mut self, used: Used) -> Figure {
        self.cpu = used.own;
        self.database_cpu = used.database;
        self
    }

    /// What was measured in another round counts too.
    pub fn add(&mut self, other: Figure) {
        self.took.extend(other.took);
        self.time += other.time;
        self.cpu += other.cpu;
        self.database_cpu += other.database_cpu;
    }

    pub fn operations(&self) -> usize {
        self.took.len()
    }

    pub fn per_second(&self) -> f64 {
        self.took.len() as f64 / self.time.as_secs_f64().max(1e-9)
    }

    pub fn cpu_us(&self) -> f64 {
        self.per_operation(self.cpu)
    }

    pub fn database_cpu_us(&self) -> f64 {
        self.per_operation(self.database_cpu)
    }

    fn per_operation(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.took.len().max(1) as f64
    }

    /// Microseconds that `share` of the operations did not exceed.
    pub fn quantile(&self, share: f64) -> u32 {
        let mut took = self.took.clone();
        if took.is_empty() {
            return 0;
        }
        let at = ((took.len() - 1) as f64 * share) as usize;
        *took.select_nth_unstable(at).1
    }

    pub fn json(&self) -> Json {
        let tenths = |number: f64| (number * 10.0).round() / 10.0;
        let mut figure = json!({
            "operations": self.operations(),
            "per_second": self.per_second().round(),
            "p50_us": self.quantile(0.5),
            "p99_us": self.quantile(0.99),
            "cpu_us": tenths(self.cpu_us()),
        });
        if self.database_cpu > Duration::ZERO {
            figure["database_cpu_us"] = json!(tenths(self.database_cpu_us()));
        }
        figure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up() {
        let used = || Used { own: Duration::from_millis(1), database: Duration::from_millis(2) };
        let mut figure = Figure::new((1..=50).collect(), Duration::from_secs(1)).used(used());
        figure.add(Figure::new((51..=100).rev().collect(), Duration::from_secs(1)).used(used()));
        assert_eq!((figure.operations(), figure.per_second()), (100, 50.0));
        assert_eq!((figure.quantile(0.5), figure.quantile(0.99), figure.quantile(1.0)), (50, 99, 100));
        assert_eq!((figure.cpu_us(), figure.database_cpu_us()), (20.0, 40.0));
        assert_eq!(Figure::default().quantile(0.5), 0);
    }
}
