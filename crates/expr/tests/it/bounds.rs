//! Fuel, output, depth; and no input that panics.

use crate::scope::{Fixed, eval};
use proptest::prelude::*;
use semel_expr::{Budget, Template, render, render_typed};

fn code(source: &str) -> &'static str {
    eval(source).expect_err(source).code
}

#[test]
fn loops_run_out_of_fuel() {
    assert_eq!(code("{% for a in 1..1000 %}{% for b in 1..1000 %}{{ a }}{% endfor %}{% endfor %}"), "fuel");
    assert_eq!(code("{{ range(1, 100000000) }}"), "fuel");
    assert_eq!(code("{{ 1..170141183460469231731687303715884105727 }}"), "fuel");
    assert_eq!(code("{{ 1 | jq('[range(1e12)]') }}"), "fuel");
    assert_eq!(code("{{ 1 | jq('[range(1e12)|select(false)]') }}"), "fuel");
}

#[test]
fn text_and_values_are_bounded() {
    let doubling = |body: &str| {
        format!("{{% set x = 'abcdefgh' %}}{{% for i in 1..60 %}}{body}{{% endfor %}}{{{{ x | length }}}}")
    };
    assert_eq!(code(&doubling("{% set x = x ~ x %}")), "output_limit");
    assert_eq!(code(&doubling("{% set x = x + x %}")), "output_limit");
    assert!(["output_limit", "fuel"].contains(&code(&doubling("{% set x = [x, x] %}"))));
    assert!(
        ["output_limit", "fuel"]
            .contains(&code("{% set x = [1] %}{% for i in 1..60 %}{% set x = x + x %}{% endfor %}"))
    );
    assert!(
        ["output_limit", "fuel"]
            .contains(&code("{% set x = [1] %}{% for i in 1..60 %}{% set x = x | merge(x) %}{% endfor %}"))
    );
    assert_eq!(code("{% set x = 1 %}{% for i in 1..500 %}{% set x = [x] %}{% endfor %}"), "depth");
    assert_eq!(code("{% set x = [1] %}{% for i in 1..500 %}{% set x = x | chunk(1) %}{% endfor %}"), "depth");
    assert_eq!(code("{{ 'a' | indent(9999999999, 'x') }}"), "output_limit");
    assert!(["output_limit", "fuel"].contains(&code("{{ ['a'] | jq('reduce range(60) as $i (.; . + .)') }}")));
    assert!(["output_limit", "fuel"].contains(&code("{{ ['a'] | jq('reduce range(60) as $i (.; [., .])') }}")));
    let mut small = Budget { output_bytes: 10, ..Budget::default() };
    let long = Template::parse("0123456789{{ 'a' }}").unwrap();
    assert_eq!(render(&long, &Fixed::default(), &mut small).unwrap_err().code, "output_limit");
}

#[test]
fn deep_text_is_refused_and_long_text_is_not() {
    for depth in [65, 1_000, 100_000] {
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{1:", "}"),
            ("{", ":1}"),
            ("-", ""),
            ("not ", ""),
            ("a[", "]"),
            ("max(", ")"),
            ("1?", ":1"),
        ] {
            let source = format!("{{{{ {}1{} }}}}", open.repeat(depth), close.repeat(depth));
            let error = Template::parse(&source).expect_err(open);
            assert!(error.offset + error.len <= source.len(), "{error:?}");
        }
        let nested = format!("{}{}", "{% if true %}".repeat(depth), "{% endif %}".repeat(depth));
        assert!(Template::parse(&nested).is_err());
    }
    assert!(Template::parse(&format!("{{{{ 1{} }}}}", "+1".repeat(100_000))).is_err());
    let long = format!("{{{{ 1{} }}}}", "+1".repeat(3_000));
    assert_eq!(eval(&long).unwrap().to_text(), "3001");
    let filters = format!("{{{{ 'a'{} }}}}", "|upper".repeat(3_000));
    assert_eq!(eval(&filters).unwrap().to_text(), "A");
}

#[test]
fn the_deepest_text_fits_the_stack() {
    let layer = "1 or 1 and 1 == 1 + 1 * 1 ~ 1 ?? (";
    let source = format!("{{{{ {}1{} }}}}", layer.repeat(60), ")".repeat(60));
    assert_eq!(eval(&source).unwrap().to_text(), "true");
    let layer = "false or true and 1 == 1 + 2 * 1 ~ nope ?? (";
    let source = format!("{{{{ {}1{} }}}}", layer.repeat(60), ")".repeat(60));
    assert!(eval(&source).is_ok() || code(&source) == "depth");
    let tags = format!(
        "{}{{{{ {}1{} }}}}{}",
        "{% if true %}".repeat(30),
        "[".repeat(30),
        "]".repeat(30),
        "{% endif %}".repeat(30)
    );
    assert!(eval(&tags).is_ok());
    let jq = format!("{{{{ 1 | jq('{}1{}') }}}}", "[".repeat(24), "]".repeat(24));
    assert!(eval(&jq).is_ok());
    for program in ["(", "[", "-", "try ", "if ", "{a:", ".[", "reduce "] {
        assert_eq!(code(&format!("{{{{ 1 | jq('{}') }}}}", program.repeat(2_000))), "filter", "{program}");
    }
    let pipes = format!("{{{{ 1 | jq('.{}') }}}}", " | .".repeat(120));
    assert_eq!(eval(&pipes).unwrap().to_text(), "[1]");
    let sums = format!("{{{{ 1 | jq('1{}') }}}}", " + 1".repeat(120));
    assert_eq!(eval(&sums).unwrap().to_text(), "[121]");
}

/// Pieces that make texts the parser gets far into.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "-",
        " if ",
        " for x in ",
        " endfor ",
        " endif ",
        " else ",
        " set x = ",
        " raw ",
        " endraw ",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        ":",
        "?",
        "??",
        "???",
        "|",
        "~",
        "+",
        "*",
        "/",
        "%",
        "==",
        "<",
        "..",
        " is ",
        " not ",
        " and ",
        " contains ",
        " defined ",
        "'a'",
        "\"b\"",
        "1",
        "0",
        "2.5",
        "9999999999999999999",
        "null",
        "true",
        "inputs",
        "inputs.list",
        "inputs.map",
        "vars",
        "vars.loop",
        "secret('T')",
        "trigger.headers",
        "x",
        "loop.index",
        " upper ",
        " first ",
        " jq('.[]') ",
        " date('yyyy') ",
        " sort ",
        " toJson ",
        " yaml ",
        " number ",
        " slice(1) ",
        " split('') ",
        " fromJson(",
        " max(",
        "é",
        "\n",
        "'",
    ];
    prop_oneof![proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned), "[ -~]{1,3}", "\\PC{1,2}"]
}

fn attempt(source: &str) {
    match Template::parse(source) {
        Err(error) => {
            assert!(error.offset + error.len <= source.len(), "{source}: {error:?}");
        }
        Ok(template) => {
            template.references();
            for fuel in [50, 20_000] {
                let mut budget = Budget { fuel, output_bytes: 4_096, depth: 8 };
                if let Ok(value) = render_typed(&template, &Fixed::default(), &mut budget) {
                    assert!(!value.to_text().contains("hunter2"), "{source}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_text_is_handled(pieces in proptest::collection::vec(piece(), 0..30)) {
        attempt(&pieces.concat());
    }

    #[test]
    fn any_expression_is_handled(pieces in proptest::collection::vec(piece(), 0..15)) {
        attempt(&format!("{{{{ {} }}}}", pieces.join(" ")));
    }

    #[test]
    fn any_filter_takes_any_value(
        value in proptest::sample::select(vec![
            "inputs", "inputs.list", "inputs.text", "inputs.none", "inputs.ratio", "-170141183460469231731687303715884105727 - 1",
            "secret('T')", "[secret('JSON')]", "'é€'", "''", "{}", "[]", "1e5", "'2024-02-30'", "99999999999999999999999",
        ]),
        filter in proptest::sample::select(vec![
            "abbreviate", "abs", "base64decode", "base64encode", "capitalize", "chunk", "className", "date", "dateAdd", "default",
            "distinct", "endsWith", "escapeChar", "first", "flatten", "indent", "join", "jq", "json", "keys", "last", "length", "lower",
            "merge", "nindent", "number", "numberFormat", "replace", "reverse", "rsort", "sha256", "sha512", "slice", "slugify",
            "sort", "split", "startsWith", "string", "substringAfter", "substringAfterLast", "substringBefore",
            "substringBeforeLast", "timestamp", "timestampMicro", "timestampMilli", "timestampNano", "title", "toIon", "toJson",
            "trim", "upper", "urldecode", "urlencode", "values", "yaml",
        ]),
        args in proptest::sample::select(vec![
            "", "()", "(1)", "(-1)", "('')", "('a', 'b', 'c')", "(9223372036854775807, 'DAYS')", "(2, 'MONTHS', 'yyyy-MM')", "({'a': 'b', '': 'c'})",
            "([1])", "(null)", "('é')", "('.[0] // .')", "('#,##0.00')", "('G y YYYY D e Q w k K h a S n X x Z O VV z')",
            "(-9223372036854775807, 'YEARS')", "(format=\"QQQQ''L\", timeZone='+99')", "(existingFormat='dd/MM/yy')", "(2.5)", "(1, 0)",
        ]),
    ) {
        attempt(&format!("{{{{ ({value}) | {filter}{args} }}}}"));
    }

    #[test]
    fn any_jq_program_is_handled(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            ".", "..", ".a", ".[]", "[", "]", "(", ")", "{", "}", "|", ",", ":", ";", "//", "+", "-", "*", "/", "%", "==", "<", "=", "|=",
            "+=", "//=", "?", " as $x ", "$x", " if ", " then ", " else ", " end ", " try ", " catch ", " reduce ", " and ", " not ", "1",
            "0", "-1", "1e400", "1e18", r#""a""#, r#""\\(.)""#, " map(", " select(", " range(", " sort_by(", " del(", " add ", " length ", " keys ",
            " flatten ", " to_entries ", " from_entries ", " paths ", " tojson ", " @csv ", " @base64d ", " join(", " test(", " limit(", " splits(", "é",
        ]), 0..14),
        data in proptest::sample::select(vec!["inputs", "inputs.list", "'[1,[2,{}]]'", "{'a': [secret('T')]}", "-170141183460469231731687303715884105727 - 1"]),
    ) {
        attempt(&format!("{{{{ ({data}) | jq('{}') }}}}", pieces.concat()));
    }
}

#[test]
fn a_mistake_is_shown_in_whole_characters() {
    for (source, place) in
        [(format!("{{{{ {}é }}}}", "(".repeat(64)), "é"), ("{{ 1 é }}".to_owned(), "é"), ("{{ 'é".to_owned(), "'")]
    {
        let error = Template::parse(&source).expect_err(&source);
        let shown = source.get(error.offset..error.offset + error.len);
        assert!(shown.is_some_and(|shown| shown.starts_with(place)), "{source}: {error:?} shows {shown:?}");
    }
}
