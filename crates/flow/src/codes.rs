//! Every code a diagnostic can carry. Codes are part of the interface: they never change their meaning.

macro_rules! codes {
    ($($name:ident = $code:literal, $summary:literal;)*) => {
        $(pub(crate) const $name: &str = $code;)*
        /// All codes with one line each, in the order of the reference page.
        pub const CODES: &[(&str, &str)] = &[$(($code, $summary)),*];
    };
}

codes! {
    YAML_SYNTAX = "yaml_syntax", "The text is not YAML.";
    TAB = "tab_indent", "A tab is used for indentation.";
    UNCLOSED_QUOTE = "unclosed_quote", "A quoted text does not end.";
    UNQUOTED_TEMPLATE = "unquoted_template", "A value starts with `{{` and is not quoted.";
    DUPLICATE_KEY = "duplicate_key", "A map has the same key twice.";
    BAD_KEY = "bad_key", "A map key is not plain text.";
    BAD_TAG = "bad_tag", "A YAML tag that is not used in flows.";
    SECOND_DOCUMENT = "second_document", "One file holds one flow.";
    TOO_LARGE = "too_large", "The file has too many bytes, values or levels.";
    ALIAS_LIMIT = "alias_limit", "Aliases expand to too many values.";
    LEADING_ZERO = "leading_zero", "A number with a leading zero is kept as text.";
    UNKNOWN_FIELD = "unknown_field", "No such field here.";
    MISSING_FIELD = "missing_field", "A required field is absent.";
    NOT_BUILT = "not_built", "Known in Kestra or planned, and not in this build.";
    WRONG_TYPE = "wrong_type", "A value of another shape is needed.";
    BAD_VALUE = "bad_value", "The value is not one of those allowed.";
    BAD_ID = "bad_id", "An id or namespace is malformed.";
    RESERVED_ID = "reserved_id", "The flow id clashes with a route.";
    DUPLICATE_ID = "duplicate_id", "Two things have the same id.";
    BAD_LABEL = "bad_label", "A label key or value is malformed.";
    SYSTEM_LABEL = "system_label", "A label that only Semel sets.";
    BAD_DURATION = "bad_duration", "Not an ISO 8601 duration.";
    BAD_CRON = "bad_cron", "Not a cron expression, or one that never fires.";
    BAD_TIMEZONE = "bad_timezone", "Not an IANA time zone.";
    BAD_REGEX = "bad_regex", "Not a regular expression.";
    BAD_DEFAULT = "bad_default", "A default does not fit its input.";
    UNKNOWN_TYPE = "unknown_type", "No such task or trigger type.";
    BAD_TEMPLATE = "bad_template", "An expression has a syntax error.";
    UNKNOWN_VARIABLE = "unknown_variable", "An expression names something that does not exist there.";
    UNKNOWN_INPUT = "unknown_input", "An input that is not declared.";
    UNKNOWN_OUTPUT = "unknown_output", "Outputs of a task that does not exist.";
    LATER_OUTPUT = "later_output", "Outputs of a task that runs later.";
    MISSING_INPUT = "missing_input", "A trigger does not set a required input.";
    CONSTANT_KEY = "constant_key", "An idempotency key that is the same for every event.";
    NO_EFFECT = "no_effect", "A field that changes nothing where it stands.";
    EMPTY_TASKS = "empty_tasks", "A list of tasks without tasks.";
    CONFLICT = "conflict", "Two fields that exclude each other.";
    LIMIT = "limit", "More than the limits allow.";
    CYCLIC_SUBFLOW = "cyclic_subflow", "A flow that starts itself without end.";
    TOO_MANY = "too_many_problems", "The rest of a long list of problems.";
}
