//! Japan, where holidays make further ones: a holiday on a Sunday frees the next day that is none, and a day between two
//! holidays is one too.

use jiff::civil::{Date, Weekday, date};

pub(super) fn is_holiday(day: Date) -> bool {
    is_named(day) || is_substitute(day) || is_between(day)
}

fn is_between(day: Date) -> bool {
    let around = day.yesterday().ok().zip(day.tomorrow().ok());
    day.weekday() != Weekday::Sunday && around.is_some_and(|(before, after)| is_named(before) && is_named(after))
}

/// Every day back to a Sunday is a holiday.
fn is_substitute(day: Date) -> bool {
    let mut before = day;
    while let Ok(yesterday) = before.yesterday() {
        if !is_named(yesterday) {
            return false;
        }
        if yesterday.weekday() == Weekday::Sunday {
            return true;
        }
        before = yesterday;
    }
    false
}

/// A holiday that the law names.
fn is_named(day: Date) -> bool {
    let year = day.year();
    let monday = |nth: i8, month: i8| Some(day) == date(year, month, 1).nth_weekday_of_month(nth, Weekday::Monday).ok();
    // The games of 2020 and 2021 moved three of them, and 2019 had a new emperor.
    let games = matches!(year, 2020 | 2021);
    match (day.month(), day.day()) {
        (1, 1) | (2, 11) | (4, 29) | (5, 3..=5) | (11, 3) | (11, 23) => true,
        (2, 23) => year >= 2020,
        (12, 23) => year <= 2018,
        (4, 30) | (5, 1 | 2) | (10, 22) => year == 2019,
        (1, _) => monday(2, 1),
        (3, march) => march == equinox(year, 20.8431),
        (7, _) if games => matches!((year, day.day()), (2020, 23 | 24) | (2021, 22 | 23)),
        (7, _) => monday(3, 7),
        (8, august) => match year {
            2020 => august == 10,
            2021 => august == 8,
            _ => year >= 2016 && august == 11,
        },
        (9, september) => monday(3, 9) || september == equinox(year, 23.2488),
        (10, _) => !games && monday(2, 10),
        _ => false,
    }
}

/// The day of an equinox in this century, in Tokyo, from the day it was on in 1980.
fn equinox(year: i16, day_in_1980: f64) -> i8 {
    let years = f64::from(year) - 1980.0;
    (day_in_1980 + 0.242_194 * years - (years / 4.0).floor()) as i8
}
