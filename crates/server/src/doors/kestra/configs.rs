//! `/configs`: what clients ask before anything else.

use super::flows::SYSTEM_NAMESPACE;
use crate::call::{Answer, Call, ok};
use serde_json::json;

pub async fn get(call: Call) -> Answer {
    let config = call.app.config();
    ok(json!({
        "version": config.version,
        "edition": "OSS",
        "isCustomDashboardsEnabled": false,
        "isTaskRunEnabled": false,
        "isAnonymousUsageEnabled": false,
        "isTemplateEnabled": false,
        "isBasicAuthEnabled": !config.dev,
        "preview": {"initial": 100, "max": 5_000},
        "systemNamespace": SYSTEM_NAMESPACE,
        "hiddenLabelsPrefixes": ["system."],
    }))
}
