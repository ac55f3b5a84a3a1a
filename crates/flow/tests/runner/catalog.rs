//! A few task types, one of each mode and with every kind of field.

use semel_core::ir::{Catalog, EffectClass, FieldKind, FieldSpec, LeafMode, TaskSpec};

pub struct TestCatalog;
pub static TEST: TestCatalog = TestCatalog;

const fn field(name: &'static str, kind: FieldKind, required: bool) -> FieldSpec {
    FieldSpec { name, kind, required, summary: "" }
}

const AUTH: &[FieldSpec] =
    &[field("type", FieldKind::Choice(&["BASIC", "BEARER"]), true), field("token", FieldKind::Text, false)];
const OPTIONS: &[FieldSpec] = &[
    field("allowFailed", FieldKind::Bool, false),
    field("timeout", FieldKind::Duration, false),
    field("auth", FieldKind::Object(AUTH), false),
];

static SPECS: &[TaskSpec] = &[
    TaskSpec {
        name: "log.Log",
        aliases: &["io.kestra.core.tasks.log.Log"],
        summary: "",
        mode: LeafMode::Inline,
        class: EffectClass::Pure,
        fields: &[
            field("message", FieldKind::TextOrList, true),
            field("level", FieldKind::Choice(&["TRACE", "DEBUG", "INFO", "WARN", "ERROR"]), false),
        ],
        outputs: &[],
    },
    TaskSpec {
        name: "debug.Return",
        aliases: &[],
        summary: "",
        mode: LeafMode::Inline,
        class: EffectClass::Pure,
        fields: &[field("format", FieldKind::Text, false)],
        outputs: &["value"],
    },
    TaskSpec {
        name: "http.Request",
        aliases: &[],
        summary: "",
        mode: LeafMode::Effect,
        class: EffectClass::Naked,
        fields: &[
            field("uri", FieldKind::Text, true),
            field("method", FieldKind::Choice(&["GET", "POST", "PUT", "DELETE"]), false),
            field("body", FieldKind::Any, false),
            field("headers", FieldKind::TextMap, false),
            field("retries", FieldKind::Int, false),
            field("options", FieldKind::Object(OPTIONS), false),
        ],
        outputs: &["code", "body"],
    },
    TaskSpec {
        name: "storage.Write",
        aliases: &[],
        summary: "",
        mode: LeafMode::Effect,
        class: EffectClass::Pure,
        fields: &[field("content", FieldKind::Any, true), field("extension", FieldKind::Text, false)],
        outputs: &["uri"],
    },
    TaskSpec {
        name: "storage.Split",
        aliases: &[],
        summary: "",
        mode: LeafMode::Effect,
        class: EffectClass::Pure,
        fields: &[field("from", FieldKind::Text, true), field("rows", FieldKind::Int, false)],
        outputs: &["uris"],
    },
    TaskSpec {
        name: "storage.FilterItems",
        aliases: &[],
        summary: "",
        mode: LeafMode::Effect,
        class: EffectClass::Pure,
        fields: &[field("from", FieldKind::Text, true), field("filterCondition", FieldKind::Expression, true)],
        outputs: &["uri"],
    },
    TaskSpec {
        name: "execution.Labels",
        aliases: &[],
        summary: "",
        mode: LeafMode::Op,
        class: EffectClass::Pure,
        fields: &[field("labels", FieldKind::Any, true)],
        outputs: &[],
    },
];

impl Catalog for TestCatalog {
    fn specs(&self) -> &[TaskSpec] {
        SPECS
    }
}
