//! What authors of Kestra flows write, and what Kestra makes of it: one row per behaviour, as its engine has them.

use crate::scope::{check, check_text, eval, fails, typed};
use semel_expr::Template;

#[test]
fn operators_take_what_the_engine_takes() {
    check(&[
        // Nothing is neither smaller nor larger, and is no error.
        ("null > 1", "false"),
        ("inputs.none <= 3", "false"),
        ("'b' > 'a'", "true"),
        // Texts that are numbers count, but `+` joins.
        ("'6' * 2", "12"),
        ("'6' - 1.5", "4.5"),
        ("'6' + 1", "61"),
        ("'a' + null", "anull"),
        ("'a' ~ null", "a"),
        ("[1, 2, 1] - 1", "[2,1]"),
        ("[1, 2, 1] - [1]", "[2]"),
        // `isIn` compares what values look like; a map has keys and values.
        ("1 isIn ['1', '2']", "true"),
        ("'1' isIn [1, 2]", "true"),
        ("'x' isIn {'k': 'x'}", "true"),
        ("'k' isIn {'k': 'x'}", "true"),
        ("'a' isIn 'abc'", "false"),
        ("null isIn [1]", "false"),
        // Inside an expression a text is true when it is not empty.
        ("'false' ? 'y' : 'n'", "y"),
        ("'' ? 'y' : 'n'", "n"),
        ("0 ? 'y' : 'n'", "n"),
        ("null ? 'y' : 'n'", "n"),
        // Floats look like Java's.
        ("10000000.0", "1.0E7"),
        ("123456789.5", "1.234567895E8"),
        ("0.0005", "5.0E-4"),
        ("3.0", "3.0"),
        ("100 / 8.0", "12.5"),
    ]);
}

#[test]
fn a_backslash_stays_unless_it_guards_the_quote() {
    check(&[
        (r"'a\nb'", r"a\nb"),
        (r#"'{"a": "x1y"}' | jq('.a | test("\\d")') | first"#, "true"),
        (r#"'{"a": "x\ny"}' | jq(".a | split(\"\n\") | length") | first"#, "2"),
        (r"'a1b2' | replace({'\d': '#'}, regexp=true)", "a#b#"),
        (r"'a.b' | split('\.') | last", "b"),
    ]);
}

#[test]
fn nothing_passes_through_filters_as_nothing() {
    for filter in [
        "upper",
        "lower",
        "trim",
        "title",
        "first",
        "last",
        "keys",
        "values",
        "reverse",
        "sort",
        "join(',')",
        "date('yyyy')",
        "dateAdd(1, 'DAYS')",
        "timestamp",
        "number",
        "slugify",
        "split(',')",
        "flatten",
        "chunk(2)",
        "jq('.a')",
        "md5",
        "sha256",
        "base64encode",
        "urlencode",
        "replace({'a': 'b'})",
        "escapeChar('single')",
        "abbreviate(3)",
        "indent(2)",
        "slice(0, 1)",
        "numberFormat('0')",
        "className",
        "substringAfter('.')",
    ] {
        assert_eq!(typed(&format!("{{{{ null | {filter} }}}}")).unwrap(), semel_expr::Value::Null, "{filter}");
    }
    check(&[
        ("null | length", "0"),
        ("null | toJson", "null"),
        ("null | yaml", "null"),
        ("null | toIon", "null"),
        ("null | default('d')", "d"),
        ("5 | length", "0"),
        ("null | merge([1])", "[1]"),
        ("[1] | merge(null)", "[1]"),
        ("{'a': 1} | merge(['b'])", r#"{"a":1,"b":"b"}"#),
    ]);
    fails(&[("null | abs", "type"), ("1 | flatten", "type")]);
}

#[test]
fn texts() {
    check(&[
        ("'abcdef' | abbreviate(6)", "abc..."),
        ("'abcde' | abbreviate(6)", "abcde"),
        ("'abcdef' | abbreviate(2)", "ab"),
        ("'abc' | abbreviate(2)", "abc"),
        ("'  hello' | capitalize", "  Hello"),
        ("['a b', {'x': 'b'}] | replace({'b': 'c'})", r#"["a c",{"x":"c"}]"#),
        ("'2024-01' | replace({'(\\d+)-(\\d+)': '$2st $1'}, regexp=true)", "01st 2024"),
        ("[\"it's\"] | escapeChar('SHELL') | first", r"it'\''s"),
        ("'a\\'b' | escapeChar('single')", r"a\'b"),
        ("'a \"b\"' | escapeChar('double')", r#"a \"b\""#),
        ("'' | nindent(2)", ""),
        ("'order-12345-done' | regexExtract('\\d+')", "12345"),
        ("'a-b' | regexExtract('(\\w)-(\\w)', group=2)", "b"),
        ("('x' | regexExtract('\\d')) ?? 'none'", "none"),
        ("'hello world' | regexMatch('wor')", "true"),
        ("'a1b22' | regexReplace('\\d+', '#')", "a#b#"),
        ("'abc' | md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("'abc' | sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("'' | sha1", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        (
            "'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq' | sha1",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        ),
        ("[1, null] | join('-')", "1-null"),
        ("[[1, null], [2]] | flatten", "[1,null,2]"),
        ("'12' | number('INT') + 1", "13"),
        ("'12' | number('DOUBLE')", "12.0"),
        ("'1,5' | split(',') | length", "2"),
    ]);
    check_text(&[
        ("{{ 'a\r\nb' | indent(2) }}", "a\r\n  b"),
        ("{{ {'a': [1, {'b': 2, 'c': 3}], 'd': {'e': 'f'}} | yaml }}", "a:\n - 1\n - b: 2\n   c: 3\nd:\n  e: f\n"),
        ("{{ ['x'] | yaml }}", " - x\n"),
    ]);
    fails(&[("'3.5' | number('INT')", "filter")]);
}

#[test]
fn ion() {
    check(&[
        ("{'int': 1, 'a-b': 'x', 'list': [1.5, true, null]} | toIon", r#"{int:1,'a-b':"x",list:[1.5e0,true,null]}"#),
        ("fromIon('{date:2024-04-21T23:00:00.000Z, title:\"Main\",views:109787}').title", "Main"),
        ("fromIon('{date:2024-04-21T23:00:00.000Z}').date", "2024-04-21T23:00:00.000Z"),
        (
            "fromIon('{a: tag::[1, 2.5e0, /* no */ sym], \\'b c\\': null.int,}') | toJson",
            r#"{"a":[1,2.5,"sym"],"b c":null}"#,
        ),
        ("fromIon(null) is null", "true"),
    ]);
    fails(&[("fromIon('{not: ion')", "function"), ("fromIon('[1 2]')", "function")]);
    let deep = format!("{{{{ fromIon('{}') }}}}", "[".repeat(5_000));
    assert_eq!(eval(&deep).unwrap_err().code, "function");
}

#[test]
fn dates() {
    check(&[
        ("'2024-01-02T03:04:05.678Z' | date('iso_zoned_date_time')", "2024-01-02T03:04:05.678Z[UTC]"),
        ("'2024-01-02T03:04:05.678Z' | date('iso_local_date_time')", "2024-01-02T03:04:05.678"),
        ("'2024-01-02T03:04:05Z' | date('iso_local_time')", "03:04:05"),
        ("'2024-01-02T03:04:05.5Z' | date('iso_instant')", "2024-01-02T03:04:05.500Z"),
        ("'2024-01-02T03:04:05Z' | date('iso_week_date')", "2024-W01-2Z"),
        ("'2024-01-02T13:04:05Z' | date('medium')", "Jan 2, 2024, 1:04:05 PM"),
        ("'2024-01-02T13:04:05Z' | date('short')", "1/2/24, 1:04 PM"),
        ("'2024-01-02' | dateAdd(-1, 'DAYS', 'yyyy-MM-dd')", "2024-01-01"),
        ("'02/01/2024' | date('yyyy-MM-dd', existingFormat='dd/MM/yyyy')", "2024-01-02"),
        ("1704164645 | date('yyyy-MM-dd HH:mm')", "2024-01-02 03:04"),
        // The date a text shows counts, not the one it has in UTC.
        ("dayOfWeek('2025-01-06T00:30:00+02:00')", "MONDAY"),
        ("dayOfMonth('2025-01-06T00:30:00+02:00')", "6"),
        ("hourOfDay('2025-01-06T00:30:00+02:00')", "0"),
        ("monthOfYear('2025-11-06')", "11"),
        ("isWeekend('2025-01-05')", "true"),
        ("isDayWeekInMonth('2025-01-06', 'monday', 'FIRST')", "true"),
        ("isDayWeekInMonth('2025-01-27', 'MONDAY', position='LAST')", "true"),
        ("isDayWeekInMonth('2025-01-13', 'MONDAY', 'FIRST')", "false"),
        ("isLastWorkingDay('2025-05-30')", "true"),
        ("isLastWorkingDay('2025-05-31')", "false"),
        ("isLastWorkingDay('2025-05-31', 'SATURDAY, SUNDAY')", "true"),
    ]);
    check(&[
        ("isDateBefore('2025-01-06', '2025-01-06T00:00:01Z')", "true"),
        ("isDateBefore('2025-01-06T01:00:00+02:00', '2025-01-05T23:00:00Z')", "false"),
        ("isDateAfter('2025-01-06T01:00:00+02:00', reference='2025-01-05T22:59:59Z')", "true"),
        ("isDateAfter('2025-01-06', '2025-01-06T00:00:00Z')", "false"),
        ("isDateBetween('2025-01-06', '2025-01-05', before='2025-01-07T12:00:00+01:00')", "true"),
        ("isDateBetween('2025-01-06', '2025-01-06', '2025-01-07')", "false"),
        ("1234.5 | numberformat('#,##0.00')", "1,234.50"),
    ]);
    fails(&[("isDateBefore('2025-01-06')", "type"), ("isDateAfter('soon', '2025-01-06')", "filter")]);
    fails(&[("isDayWeekInMonth('2025-01-06', 'x', 'FIRST')", "type")]);
}

#[test]
fn functions_over_the_run() {
    check(&[
        ("range(1, 5, increment=2)", "[1,3,5]"),
        ("randomInt(3, 3)", "3"),
        ("randomPort() > 49151", "true"),
        ("ksuid() | length", "27"),
        ("ksuid() | slice(0, 3)", "2aN"),
        ("env('home')", "h"),
        ("env('none', 'd')", "d"),
        ("env('gone', default='d')", "d"),
        (
            "tasksWithState('failed') | toJson",
            r#"[{"taskId":"a","state":"FAILED"},{"taskId":"b","state":"FAILED","value":"x"}]"#,
        ),
        ("loopOutputs([{'outputs': {'n': 1}}, {}], 'n')", "[1,null]"),
        ("iterationOutput({'first': {'value': 7}, 'second': {}}).value", "7"),
        ("iterationOutput({'first': {'value': 7}, 'second': {'value': 8}}, 1).value", "8"),
        ("iterationOutput('nowhere') is null", "true"),
        ("parentOutput() is null", "true"),
        ("printContext().inputs.name", "Ada"),
        ("fetchContext().vars.key", "{{ trigger.headers['Idempotency-Key'] ?? 'none' }}"),
        ("fromJson(null) is null", "true"),
    ]);
    fails(&[("iterationOutput({'first': {}}, 9)", "function"), ("secret('T', subkey='x')", "secret")]);
}

#[test]
fn render_takes_author_text_and_nothing_else() {
    check_text(&[
        (r#"{{ render("{{ inputs.none ?? inputs.name | upper }}") }}"#, "ADA"),
        (r#"{{ renderOnce('<{{ inputs.count }}>') }}"#, "<3>"),
        (r#"{{ render(toRender="{{ inputs.count }}", recursive=false) }}"#, "3"),
        ("{{ render(vars.key) }}", "k1"),
        ("{{ render(vars.tree).list[0] }}", "3"),
        // What a caller sent is data, whatever it looks like.
        ("{{ render(inputs.evil) }}", "{{ secret('T') }}"),
        ("{{ render(vars.note) }}", "{{ secret('T') }}"),
        (r#"{{ render("{{ inputs.evil }}") }}"#, "{{ secret('T') }}"),
    ]);
    let references = Template::parse(r#"{{ render("{{ outputs.x.value }}") }}"#).unwrap().references();
    assert!(references.outputs.contains("x"));
    assert!(Template::parse(r#"{{ render("{{ ") }}"#).is_err());
}

#[test]
fn macros_and_blocks() {
    check_text(&[
        ("{{ hi('Bo') }}{% macro hi(name, mark='!') %}Hi {{ name }}{{ mark }}{% endmacro %}", "Hi Bo!"),
        (
            "{% macro hi(name, mark='!') %}{{ name }}{{ mark }}{% endmacro %}{{ hi(mark='?', name=inputs.name) }}",
            "Ada?",
        ),
        ("{% macro m(a) %}[{{ a is null }}]{% endmacro %}{{ m() }}", "[true]"),
        ("{% set x = 1 %}{% macro m() %}{{ x ?? 'unseen' }}{% endmacro %}{{ m() }}{{ x }}", "unseen1"),
        ("{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(3) }}", "3210"),
        ("{% block head %}A{{ inputs.count }}{% endblock %}-{{ block('head') }}", "A3-A3"),
        ("{% block 'b' %}x{% endblock b %}", "x"),
        ("{% for x in null %}a{% else %}b{% endfor %}", ""),
        ("{% for x in [] %}a{% else %}b{% endfor %}", "b"),
        (
            "{% for x in [1,2] %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
            "0truefalse21 1falsetrue20 ",
        ),
        ("{% for e in {'k': 'v'} %}{{ e.key }}={{ e.value }}{% endfor %}", "k=v"),
        ("{% filter upper %}a{{ inputs.name }}{% endfilter %}", "AADA"),
        ("a{%- if true -%} b {%- endif -%} c", "abc"),
        ("{% raw %}{{ inputs.name }}{% endraw %}", "{{ inputs.name }}"),
        ("{# nothing #}x", "x"),
    ]);
    let endless = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
    assert_eq!(eval(endless).unwrap_err().code, "depth");
    for wrong in
        ["{% macro m() %}", "{% block a %}{% endblock %}{% block a %}{% endblock %}", "{{ gone() }}", "{% endmacro %}"]
    {
        assert!(Template::parse(wrong).is_err(), "{wrong}");
    }
    let references =
        Template::parse("{% macro m(a) %}{{ a }}{{ vars.x }}{% endmacro %}{{ m(inputs.b) }}").unwrap().references();
    assert_eq!(references.roots.into_iter().collect::<Vec<_>>(), ["inputs", "vars"]);
    assert!(references.functions.is_empty());
}

#[test]
fn a_missing_variable_is_named_with_its_expression() {
    let error = eval("a\n{{ inputs.gone }}").unwrap_err();
    assert_eq!(error.message, "Unable to find `gone` used in the expression `a\n{{ inputs.gone }}` at line 2");
    check(&[
        ("inputs.gone ?? 'd'", "d"),
        ("inputs.none ?? 'd'", "d"),
        ("inputs.none ??? 'd'", ""),
        ("inputs.gone ??? 'd'", "d"),
        ("inputs.gone.deeper[0] ?? 'd'", "d"),
        ("foo ?? bar ?? 'last'", "last"),
        ("inputs.gone is defined", "false"),
        ("inputs.gone is not defined", "true"),
        ("inputs.gone | default('d')", "d"),
        ("inputs.list[9] ?? 'd'", "d"),
    ]);
    fails(&[("inputs.gone is null", "missing_variable"), ("fromJson('x') ?? 'd'", "function")]);
}
