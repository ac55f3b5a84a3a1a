//! The tables. Of a country whose parts differ, only what is free in all of it; of the United Kingdom, what is free in
//! England and Wales; of the United States and Canada, what is free by the law of the federation.

use super::{Day, Moved, Rule};
use jiff::civil::Weekday::{Monday, Saturday, Thursday};

const fn on(month: i8, day: i8) -> Rule {
    Rule::new(Day::On(month, day))
}

const fn easter(days: i32) -> Rule {
    Rule::new(Day::Easter(days))
}

const fn nth(nth: i8, weekday: jiff::civil::Weekday, month: i8) -> Rule {
    Rule::new(Day::Nth(nth, weekday, month))
}

const fn once(year: i16, month: i8, day: i8) -> Rule {
    Rule::new(Day::Once(year, month, day))
}

const NEW_YEAR: Rule = on(1, 1);
const EPIPHANY: Rule = on(1, 6);
const MAUNDY_THURSDAY: Rule = easter(-3);
const GOOD_FRIDAY: Rule = easter(-2);
const EASTER_SUNDAY: Rule = easter(0);
const EASTER_MONDAY: Rule = easter(1);
const ASCENSION: Rule = easter(39);
const WHIT_SUNDAY: Rule = easter(49);
const WHIT_MONDAY: Rule = easter(50);
const CORPUS_CHRISTI: Rule = easter(60);
const LABOUR_DAY: Rule = on(5, 1);
const ASSUMPTION: Rule = on(8, 15);
const ALL_SAINTS: Rule = on(11, 1);
const IMMACULATE: Rule = on(12, 8);
const CHRISTMAS: Rule = on(12, 25);
const SECOND_CHRISTMAS: Rule = on(12, 26);
const MIDSUMMER: Rule = Rule::new(Day::From(Saturday, 6, 20));
const ALL_SAINTS_SATURDAY: Rule = Rule::new(Day::From(Saturday, 10, 31));

const NEXT: Moved = Moved::ToNextWorkday;
const NEAREST: Moved = Moved::ToNearestWorkday;

pub(super) const ALL: &[(&str, &[Rule])] = &[
    ("AT", AT),
    ("AU", AU),
    ("BE", BE),
    ("CA", CA),
    ("CH", CH),
    ("DE", DE),
    ("DK", DK),
    ("ES", ES),
    ("FI", FI),
    ("FR", FR),
    ("GB", GB),
    ("IE", IE),
    ("IT", IT),
    // Its rules depend on each other: see `japan`.
    ("JP", &[]),
    ("NL", NL),
    ("NO", NO),
    ("PL", PL),
    ("PT", PT),
    ("SE", SE),
    ("US", US),
];

const AT: &[Rule] = &[
    NEW_YEAR,
    EPIPHANY,
    EASTER_MONDAY,
    LABOUR_DAY,
    ASCENSION,
    WHIT_MONDAY,
    CORPUS_CHRISTI,
    ASSUMPTION,
    on(10, 26),
    ALL_SAINTS,
    IMMACULATE,
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const AU: &[Rule] = &[
    NEW_YEAR.moved(NEXT),
    on(1, 26).moved(NEXT),
    GOOD_FRIDAY,
    EASTER_MONDAY,
    on(4, 25),
    CHRISTMAS.moved(NEXT),
    SECOND_CHRISTMAS.moved(NEXT),
    once(2022, 9, 22),
];

const BE: &[Rule] = &[
    NEW_YEAR,
    EASTER_MONDAY,
    LABOUR_DAY,
    ASCENSION,
    WHIT_MONDAY,
    on(7, 21),
    ASSUMPTION,
    ALL_SAINTS,
    on(11, 11),
    CHRISTMAS,
];

const CA: &[Rule] = &[
    NEW_YEAR,
    GOOD_FRIDAY,
    Rule::new(Day::From(Monday, 5, 18)),
    on(7, 1).moved(Moved::SundayToMonday),
    nth(1, Monday, 9),
    on(9, 30).since(2021),
    nth(2, Monday, 10),
    on(11, 11),
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const CH: &[Rule] = &[NEW_YEAR, ASCENSION, on(8, 1), CHRISTMAS];

const DE: &[Rule] = &[
    NEW_YEAR,
    GOOD_FRIDAY,
    EASTER_MONDAY,
    LABOUR_DAY,
    ASCENSION,
    WHIT_MONDAY,
    on(10, 3),
    once(2017, 10, 31),
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const DK: &[Rule] = &[
    NEW_YEAR,
    MAUNDY_THURSDAY,
    GOOD_FRIDAY,
    EASTER_SUNDAY,
    EASTER_MONDAY,
    easter(26).until(2023),
    ASCENSION,
    WHIT_SUNDAY,
    WHIT_MONDAY,
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const ES: &[Rule] = &[
    NEW_YEAR,
    EPIPHANY,
    GOOD_FRIDAY,
    LABOUR_DAY,
    ASSUMPTION,
    on(10, 12),
    ALL_SAINTS,
    on(12, 6),
    IMMACULATE,
    CHRISTMAS,
];

const FI: &[Rule] = &[
    NEW_YEAR,
    EPIPHANY,
    GOOD_FRIDAY,
    EASTER_SUNDAY,
    EASTER_MONDAY,
    LABOUR_DAY,
    ASCENSION,
    WHIT_SUNDAY,
    MIDSUMMER,
    ALL_SAINTS_SATURDAY,
    on(12, 6),
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const FR: &[Rule] = &[
    NEW_YEAR,
    EASTER_MONDAY,
    LABOUR_DAY,
    on(5, 8),
    ASCENSION,
    WHIT_MONDAY,
    on(7, 14),
    ASSUMPTION,
    ALL_SAINTS,
    on(11, 11),
    CHRISTMAS,
];

const GB: &[Rule] = &[
    NEW_YEAR.moved(NEXT),
    GOOD_FRIDAY,
    EASTER_MONDAY,
    nth(1, Monday, 5).until(2019),
    once(2020, 5, 8),
    nth(1, Monday, 5).since(2021),
    nth(-1, Monday, 5).until(2021),
    once(2022, 6, 2),
    once(2022, 6, 3),
    nth(-1, Monday, 5).since(2023),
    nth(-1, Monday, 8),
    once(2022, 9, 19),
    once(2023, 5, 8),
    CHRISTMAS.moved(NEXT),
    SECOND_CHRISTMAS.moved(NEXT),
];

const IE: &[Rule] = &[
    NEW_YEAR,
    Rule::new(Day::Brigid).since(2023),
    on(3, 17),
    once(2022, 3, 18),
    EASTER_MONDAY,
    nth(1, Monday, 5),
    nth(1, Monday, 6),
    nth(1, Monday, 8),
    nth(-1, Monday, 10),
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const IT: &[Rule] = &[
    NEW_YEAR,
    EPIPHANY,
    EASTER_SUNDAY,
    EASTER_MONDAY,
    on(4, 25),
    LABOUR_DAY,
    on(6, 2),
    ASSUMPTION,
    on(10, 4).since(2026),
    ALL_SAINTS,
    IMMACULATE,
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const NL: &[Rule] = &[
    NEW_YEAR,
    EASTER_SUNDAY,
    EASTER_MONDAY,
    on(4, 27).since(2014).moved(Moved::SundayToSaturday),
    Rule::new(Day::EveryFifthYear(5, 5)),
    ASCENSION,
    WHIT_SUNDAY,
    WHIT_MONDAY,
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const NO: &[Rule] = &[
    NEW_YEAR,
    MAUNDY_THURSDAY,
    GOOD_FRIDAY,
    EASTER_SUNDAY,
    EASTER_MONDAY,
    LABOUR_DAY,
    on(5, 17),
    ASCENSION,
    WHIT_SUNDAY,
    WHIT_MONDAY,
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const PL: &[Rule] = &[
    NEW_YEAR,
    EPIPHANY.since(2011),
    EASTER_SUNDAY,
    EASTER_MONDAY,
    LABOUR_DAY,
    on(5, 3),
    WHIT_SUNDAY,
    CORPUS_CHRISTI,
    ASSUMPTION,
    ALL_SAINTS,
    on(11, 11),
    on(12, 24).since(2025),
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const PT: &[Rule] = &[
    NEW_YEAR,
    GOOD_FRIDAY,
    EASTER_SUNDAY,
    on(4, 25),
    LABOUR_DAY,
    CORPUS_CHRISTI.until(2012),
    CORPUS_CHRISTI.since(2016),
    on(6, 10),
    ASSUMPTION,
    on(10, 5).until(2012),
    on(10, 5).since(2016),
    ALL_SAINTS.until(2012),
    ALL_SAINTS.since(2016),
    on(12, 1).until(2012),
    on(12, 1).since(2016),
    IMMACULATE,
    CHRISTMAS,
];

const SE: &[Rule] = &[
    NEW_YEAR,
    EPIPHANY,
    GOOD_FRIDAY,
    EASTER_SUNDAY,
    EASTER_MONDAY,
    LABOUR_DAY,
    ASCENSION,
    WHIT_SUNDAY,
    on(6, 6).since(2005),
    MIDSUMMER,
    ALL_SAINTS_SATURDAY,
    CHRISTMAS,
    SECOND_CHRISTMAS,
];

const US: &[Rule] = &[
    NEW_YEAR.moved(NEAREST),
    nth(3, Monday, 1),
    nth(3, Monday, 2),
    nth(-1, Monday, 5),
    on(6, 19).since(2021).moved(NEAREST),
    on(7, 4).moved(NEAREST),
    nth(1, Monday, 9),
    nth(2, Monday, 10),
    on(11, 11).moved(NEAREST),
    nth(4, Thursday, 11),
    CHRISTMAS.moved(NEAREST),
];
