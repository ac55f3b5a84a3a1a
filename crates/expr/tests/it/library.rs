//! Functions and filters, one row per behaviour.

use crate::scope::{check, eval, fails};

#[test]
fn functions() {
    check(&[
        ("kv('here')", "5"),
        ("kv('gone', errorOnMissing=false) ?? 'd'", "d"),
        ("now()", "2024-01-02T03:04:05.678000Z"),
        ("now(format='yyyy-MM-dd')", "2024-01-02"),
        ("now(timeZone='Europe/Paris', format='HH:mm XXX VV')", "04:04 +01:00 Europe/Paris"),
        ("fromJson('{\"a\": [1]}').a[0]", "1"),
        ("json(outputs.step.body).id", "7"),
        ("range(1, 3)", "[1,2,3]"),
        ("range(0, 6, 3)", "[0,3,6]"),
        ("range(3, 1, -1)", "[3,2,1]"),
        ("max(1, 3, 2)", "3"),
        ("min([2, 1.5])", "1.5"),
        ("read('a.txt')", "file a.txt"),
        ("currentEachOutput({'first': 1, 'second': 2})", "2"),
        ("dayOfWeek('2024-01-02')", "TUESDAY"),
        ("isWeekend('2024-01-06')", "true"),
        ("monthOfYear('2024-01-06')", "1"),
        ("hourOfDay(now())", "3"),
        ("uuid() | length", "36"),
        ("id() | length", "22"),
        ("nanoId(length=5) | length", "5"),
        ("nanoId(3, 'a')", "aaa"),
    ]);
    for _ in 0..3 {
        let number: i64 = eval("{{ randomInt(5, 7) }}").unwrap().to_text().parse().unwrap();
        assert!((5..7).contains(&number));
    }
    fails(&[
        ("kv('gone')", "kv"),
        ("errorLogs()", "function"),
        ("yaml('a: 1')", "function"),
        ("fromJson('{')", "function"),
        ("randomInt(2, 1)", "type"),
        ("range(1, 3, 0)", "type"),
    ]);
    assert_eq!(eval("{{ errorLogs() }}").unwrap_err().message, "function `errorLogs` is not available here");
    assert_eq!(eval("{{ kv('gone') }}").unwrap_err().message, "The key 'gone' does not exist in the namespace 'own'.");
}

#[test]
fn text_filters() {
    check(&[
        ("'aB' | upper", "AB"),
        ("'aB' | lower", "ab"),
        ("' a ' | trim", "a"),
        ("'hello world' | capitalize", "Hello world"),
        ("'hello world' | title", "Hello World"),
        ("'Crème  Brûlée, now_ok!' | slugify", "creme-brulee-now-ok"),
        ("'abcdefgh' | abbreviate(6)", "abc..."),
        ("'abc' | abbreviate(6)", "abc"),
        ("'a,b,,c,' | split(',')", r#"["a","b","","c"]"#),
        ("'a.b' | split('\\.')", r#"["a","b"]"#),
        ("'a(b' | split('(')", r#"["a","b"]"#),
        ("'a,b,c' | split(',', 2)", r#"["a","b,c"]"#),
        ("'abc' | startsWith('ab')", "true"),
        ("'abc' | endsWith('ab')", "false"),
        ("'aXbX' | replace({'X': '-', 'b': 'c'})", "a-c-"),
        ("'a1b22' | replace({'[0-9]+': '#'}, regexp=true)", "a#b#"),
        ("\"it's\" | escapeChar('single')", "it\\'s"),
        ("\"it's\" | escapeChar('shell')", "it'\\''s"),
        ("'a\nb' | indent(2)", "a\n  b"),
        ("'a\nb' | nindent(2)", "\n  a\n  b"),
        ("'a.b.c' | substringBefore('.')", "a"),
        ("'a.b.c' | substringBeforeLast('.')", "a.b"),
        ("'a.b.c' | substringAfter('.')", "b.c"),
        ("'a.b.c' | substringAfterLast('.')", "c"),
        ("1 | string | className", "java.lang.String"),
    ]);
}

#[test]
fn encodings() {
    check(&[
        ("'héé' | base64encode | base64decode", "héé"),
        ("'a b&é' | urlencode", "a+b%26%C3%A9"),
        ("'a+b%26%C3%A9' | urldecode", "a b&é"),
        ("'abc' | sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("'abc' | sha512 | length", "128"),
        ("{'a': [1, 'x']} | toJson", r#"{"a":[1,"x"]}"#),
        ("'x' | json", "\"x\""),
        ("{'a': 1} | toIon", "{a:1}"),
        ("{'a': [1, 'x: y'], 'b': {'c': null}, 'd': []} | yaml", "a:\n - 1\n - \"x: y\"\nb:\n  c: null\nd: []\n"),
        ("[{'a': 1, 'b': 2}] | yaml", " - a: 1\n   b: 2\n"),
    ]);
    fails(&[("'%%%' | base64decode", "filter"), ("'%zz' | urldecode", "filter")]);
}

#[test]
fn list_filters() {
    check(&[
        ("inputs.list | first", "3"),
        ("inputs.list | last", "2"),
        ("[] | first", ""),
        ("'abc' | first", "a"),
        ("inputs.list | length", "3"),
        ("'héé' | length", "3"),
        ("inputs.map | keys", r#"["b","a"]"#),
        ("inputs.map | values | first", "1"),
        ("[1,2,3] | chunk(2)", "[[1,2],[3]]"),
        ("[1,[2,[3]],null] | flatten", "[1,2,[3],null]"),
        ("[1,2,3] | slice(1,2)", "[2]"),
        ("'abc' | slice(1)", "bc"),
        ("[1,'a'] | join('-')", "1-a"),
        ("inputs.list | sort", "[1,2,3]"),
        ("[2, 1.5, 1] | sort", "[1,1.5,2]"),
        ("inputs.list | rsort", "[3,2,1]"),
        ("[1,2] | reverse", "[2,1]"),
        ("[1,1,'1',2] | distinct", r#"[1,"1",2]"#),
        ("[1] | merge([2])", "[1,2]"),
        ("{'a':1} | merge({'b':2})", r#"{"a":1,"b":2}"#),
    ]);
    fails(&[("[1,'a'] | sort", "type"), ("[1] | chunk(0)", "type"), ("3 | keys", "type")]);
}

#[test]
fn numbers() {
    check(&[
        ("'12' | number + 1", "13"),
        ("'1.5' | number", "1.5"),
        ("'12' | number('DOUBLE')", "12.0"),
        ("1.9 | number('INT')", "1"),
        ("(-3) | abs", "3"),
        ("1234567.891 | numberFormat('#,##0.00')", "1,234,567.89"),
        ("3 | numberFormat('000')", "003"),
        ("2.5 | numberFormat('#.##')", "2.5"),
    ]);
    fails(&[
        ("'abc' | number", "filter"),
        ("1 / 0", "type"),
        ("'a' * 2", "type"),
        ("170141183460469231731687303715884105727 + 1", "type"),
    ]);
}

#[test]
fn dates() {
    check(&[
        ("'2024-02-29T10:20:30.123456Z' | date('yyyy/MM/dd HH:mm:ss.SSS')", "2024/02/29 10:20:30.123"),
        ("'2024-02-29T10:20:30+02:00' | date", "2024-02-29T08:20:30.000000Z"),
        ("'2024-02-29' | date('EEE, d MMM yy \\'at\\' h a')", "Thu, 29 Feb 24 at 12 AM"),
        (
            "'2024-07-01T00:00:00Z' | date(\"yyyy-MM-dd'T'HH:mmXXX\", timeZone='America/New_York')",
            "2024-06-30T20:00-04:00",
        ),
        ("'29/02/2024 07:08' | date('yyyy-MM-dd HH:mm', existingFormat='dd/MM/yyyy HH:mm')", "2024-02-29 07:08"),
        ("'20240229' | date('iso_local_date', existingFormat='yyyyMMdd')", "2024-02-29"),
        ("'2024-02-29T00:00:00Z' | date('HH', 'Asia/Tokyo')", "09"),
        ("'29/02/2024' | date('yyyy', 'dd/MM/yyyy', 'UTC')", "2024"),
        ("1709201230 | date('sql_sec')", "2024-02-29 10:07:10"),
        ("1709201230000 | date('sql_milli')", "2024-02-29 10:07:10.000"),
        ("'2024-01-31T00:00:00Z' | dateAdd(1, 'MONTHS')", "2024-02-29T00:00:00.000000Z"),
        ("now() | dateAdd(-1, 'DAYS') | date('yyyy-MM-dd')", "2024-01-01"),
        ("now() | dateAdd(2, 'HOURS', format='HH')", "05"),
        ("'1970-01-02T00:00:00Z' | timestamp", "86400"),
        ("'1970-01-01T00:00:01.5Z' | timestampMilli", "1500"),
        ("'1970-01-01T00:00:01Z' | timestampMicro", "1000000"),
        ("'1970-01-01T00:00:01Z' | timestampNano", "1000000000"),
        ("'1970-01-01 01:00:00' | timestamp(timeZone='Europe/Paris')", "0"),
    ]);
    fails(&[
        ("'soon' | date", "filter"),
        ("now() | dateAdd(1, 'EONS')", "filter"),
        ("now() | date('j')", "filter"),
        ("now() | date(timeZone='Mars/Base')", "filter"),
        ("99999999999999999999999999 | date", "filter"),
    ]);
}
