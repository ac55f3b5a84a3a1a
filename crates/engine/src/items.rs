//! Expressions that a task evaluates for each row of a file: they see the row and nothing else.

use crate::ports::Entropy;
use semel_expr::{Budget, Part, Scope, SecretRef, Template, Value, render};
use semel_store::Store;
use semel_tasks::Expressions;
use serde_json::Value as Json;
use std::sync::Arc;

pub struct ItemExpressions {
    pub store: Arc<dyn Store>,
    pub entropy: Arc<dyn Entropy>,
}

struct ItemScope<'a> {
    item: Value,
    with: &'a ItemExpressions,
}

const ROW_ONLY: &str = "the expression is evaluated for each row, and sees only the row";

impl Scope for ItemScope<'_> {
    fn root(&self, name: &str) -> Option<Value> {
        self.item.get(name)
    }

    fn secret(&self, _: &str, _: Option<&str>) -> Result<SecretRef, String> {
        Err(ROW_ONLY.to_owned())
    }

    fn reveal(&self, _: &Part) -> Result<String, String> {
        Err(ROW_ONLY.to_owned())
    }

    fn seal(&self, _: &str) -> Result<String, String> {
        Err(ROW_ONLY.to_owned())
    }

    fn kv(&self, _: &str, _: Option<&str>, _: bool) -> Result<Value, String> {
        Err(ROW_ONLY.to_owned())
    }

    fn now_millis(&self) -> i64 {
        self.with.store.now().0
    }

    fn random_u64(&self) -> u64 {
        self.with.entropy.random()
    }
}

impl Expressions for ItemExpressions {
    fn render(&self, template: &str, item: &Json) -> Result<String, String> {
        let parsed = Template::of(template).map_err(|error| error.message)?;
        let scope = ItemScope { item: Value::from_json(item), with: self };
        let value = render(&parsed, &scope, &mut Budget::default()).map_err(|error| error.message)?;
        Ok(value.to_text())
    }
}
