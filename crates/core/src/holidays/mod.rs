//! Public holidays, computed from rules: fixed days, days counted from Easter, weekdays of a month, and what the law of a
//! country does when one of them falls on a weekend.
//!
//! Only days that are free in the whole country count. A day that is made up for on another one counts on both. The
//! tables are those of the law as it is now; what began or ended since 2000 carries its years.

mod countries;
mod japan;

use jiff::ToSpan;
use jiff::civil::{Date, Weekday, date};

/// A country that has no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no calendar of public holidays for `{0}`; there are those of {all}", all = known().join(", "))]
pub struct UnknownCountry(pub String);

/// The countries that have a table, by their ISO 3166-1 codes.
pub fn known() -> Vec<&'static str> {
    countries::ALL.iter().map(|(code, _)| *code).collect()
}

/// The code as the tables have it: codes are not told apart by case.
pub fn country(code: &str) -> Result<&'static str, UnknownCountry> {
    let found = countries::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(code.trim()));
    found.map(|(known, _)| *known).ok_or_else(|| UnknownCountry(code.to_owned()))
}

/// Whether a day is a public holiday in the whole of a country.
pub fn is_holiday(day: Date, code: &str) -> Result<bool, UnknownCountry> {
    let code = country(code)?;
    if code == "JP" {
        return Ok(japan::is_holiday(day));
    }
    let rules = countries::ALL.iter().find(|(known, _)| *known == code).map_or(&[][..], |(_, rules)| *rules);
    // The first of January may be made up for in the year before, and days of December in the year after.
    let years = [day.year() - 1, day.year(), day.year() + 1];
    Ok(years.iter().any(|year| falls_on(rules, *year, day)))
}

fn falls_on(rules: &[Rule], year: i16, day: Date) -> bool {
    let of_year: Vec<(Date, Moved)> = rules
        .iter()
        .filter(|rule| (rule.since..=rule.until).contains(&year))
        .filter_map(|rule| Some((rule.day.in_year(year)?, rule.moved)))
        .collect();
    let mut taken: Vec<Date> = of_year.iter().map(|(date, _)| *date).collect();
    for (date, moved) in &of_year {
        let substitute = moved.substitute(*date, &taken);
        taken.extend(substitute);
    }
    taken.contains(&day)
}

/// One holiday of a country and the years in which it is one.
#[derive(Clone, Copy, Debug)]
struct Rule {
    day: Day,
    moved: Moved,
    since: i16,
    until: i16,
}

impl Rule {
    const fn new(day: Day) -> Rule {
        Rule { day, moved: Moved::Never, since: i16::MIN, until: i16::MAX }
    }

    const fn moved(self, moved: Moved) -> Rule {
        Rule { moved, ..self }
    }

    const fn since(self, year: i16) -> Rule {
        Rule { since: year, ..self }
    }

    const fn until(self, year: i16) -> Rule {
        Rule { until: year, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
enum Day {
    /// Month and day.
    On(i8, i8),
    /// Days from Easter Sunday.
    Easter(i32),
    /// The nth weekday of a month; from the end if negative.
    Nth(i8, Weekday, i8),
    /// The first such weekday on or after a day.
    From(Weekday, i8, i8),
    /// The law of one year.
    Once(i16, i8, i8),
    /// Only in years that five divides.
    EveryFifthYear(i8, i8),
    /// The first Monday of February, or its first day if that is a Friday.
    Brigid,
}

impl Day {
    fn in_year(self, year: i16) -> Option<Date> {
        match self {
            Day::On(month, day) => Date::new(year, month, day).ok(),
            Day::Easter(days) => easter(year).checked_add(days.days()).ok(),
            Day::Nth(nth, weekday, month) => date(year, month, 1).nth_weekday_of_month(nth, weekday).ok(),
            Day::From(weekday, month, day) => {
                let yesterday = date(year, month, day).yesterday().ok()?;
                yesterday.nth_weekday(1, weekday).ok()
            }
            Day::Once(only, month, day) => (only == year).then(|| date(year, month, day)),
            Day::EveryFifthYear(month, day) => (year % 5 == 0).then(|| date(year, month, day)),
            Day::Brigid if date(year, 2, 1).weekday() == Weekday::Friday => Some(date(year, 2, 1)),
            Day::Brigid => Day::Nth(1, Weekday::Monday, 2).in_year(year),
        }
    }
}

/// What the law does with a holiday that falls on a weekend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Never,
    /// Saturday and Sunday: the next day that is neither a weekend nor a holiday itself.
    ToNextWorkday,
    /// Saturday: the Friday before. Sunday: the Monday after.
    ToNearestWorkday,
    /// Sunday: the Monday after.
    SundayToMonday,
    /// Sunday: the Saturday before.
    SundayToSaturday,
}

impl Moved {
    fn substitute(self, day: Date, taken: &[Date]) -> Option<Date> {
        let weekday = day.weekday();
        match self {
            Moved::ToNextWorkday if is_weekend(day) => {
                let mut next = day.tomorrow().ok()?;
                while is_weekend(next) || taken.contains(&next) {
                    next = next.tomorrow().ok()?;
                }
                Some(next)
            }
            Moved::ToNearestWorkday if weekday == Weekday::Saturday => day.yesterday().ok(),
            Moved::ToNearestWorkday | Moved::SundayToMonday if weekday == Weekday::Sunday => day.tomorrow().ok(),
            Moved::SundayToSaturday if weekday == Weekday::Sunday => day.yesterday().ok(),
            Moved::Never
            | Moved::ToNextWorkday
            | Moved::ToNearestWorkday
            | Moved::SundayToMonday
            | Moved::SundayToSaturday => None,
        }
    }
}

fn is_weekend(day: Date) -> bool {
    matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// Easter Sunday of the western churches (the anonymous Gregorian computation).
fn easter(year: i16) -> Date {
    let y = i32::from(year);
    let golden = y.rem_euclid(19);
    let (century, rest) = (y.div_euclid(100), y.rem_euclid(100));
    let (leaps, century_rest) = (century / 4, century % 4);
    let moon = (century - (century + 8) / 25 + 1) / 3;
    let epact = (19 * golden + century - leaps - moon + 15).rem_euclid(30);
    let weekday = (32 + 2 * century_rest + 2 * (rest / 4) - epact - rest % 4).rem_euclid(7);
    let late = (golden + 11 * epact + 22 * weekday) / 451;
    let days = epact + weekday - 7 * late + 114;
    date(year, (days / 31) as i8, (days % 31 + 1) as i8)
}

#[cfg(test)]
mod tests;
