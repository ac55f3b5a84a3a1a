//! What the clock fires, and what conditions keep it from firing.

use super::House;
use semel_store::Work;
use serde_json::json;

#[tokio::test]
async fn a_schedule_fires_only_when_its_conditions_hold() {
    // A Friday.
    let house = House::at("2026-01-02T12:00:00Z");
    house
        .push(
            "id: f\nnamespace: n\ntasks: [{id: t, type: log.Log, message: hi}]\ntriggers:\n  - id: daily\n    type: trigger.Schedule\n    cron: '30 0 * * *'\n    timezone: Europe/Berlin\n    conditions:\n      - type: condition.Not\n        conditions: [{type: condition.Weekend}]\n",
        )
        .await;
    house.now_is("2026-01-05T12:00:00Z");
    house.tick().await;
    // Saturday and Sunday as they are in Berlin; in UTC the first of them was a Friday.
    assert_eq!(house.triggered("date"), [json!("2026-01-05T00:30:00.000+01:00")]);
    house.now_is("2026-01-06T12:00:00Z");
    house.tick().await;
    assert_eq!(house.triggered("date").len(), 2);
}

#[tokio::test]
async fn the_last_one_made_up_for_is_the_last_that_was_wanted() {
    let house = House::at("2026-01-01T12:00:00Z");
    house
        .push(
            "id: f\nnamespace: n\ntasks: [{id: t, type: log.Log, message: hi}]\ntriggers:\n  - id: daily\n    type: trigger.Schedule\n    cron: '0 9 * * *'\n    recoverMissedSchedules: LAST\n    when: \"{{ kv('on', errorOnMissing=false) == 'yes' }}\"\n",
        )
        .await;
    house.now_is("2026-01-03T12:00:00Z");
    house.tick().await;
    assert_eq!(house.runs().len(), 0, "the switch is off");
    let on = Work::KvSet {
        workspace: house.workspace.clone(),
        namespace: "n".into(),
        key: "on".into(),
        value: json!("yes"),
        kv_type: "STRING".into(),
        overwrite: true,
        ttl_ms: None,
    };
    house.engine.write(on).await.unwrap();
    house.now_is("2026-01-05T12:00:00Z");
    house.tick().await;
    assert_eq!(house.triggered("date"), [json!("2026-01-05T09:00:00.000Z")]);
}

#[tokio::test]
async fn dates_fire_once_each() {
    let house = House::at("2026-01-01T12:00:00Z");
    let source = |more: &str| {
        format!(
            "id: f\nnamespace: n\ntasks: [{{id: t, type: log.Log, message: hi}}]\ntriggers:\n  - id: d\n    type: trigger.ScheduleOnDates\n    dates: ['2026-01-01T00:00:00Z', '2026-01-02T08:00:00Z', '2026-01-03T08:00:00Z'{more}]\n"
        )
    };
    house.push(&source("")).await;
    house.now_is("2026-01-02T12:00:00Z");
    house.tick().await;
    house.tick().await;
    assert_eq!(house.triggered("date"), [json!("2026-01-02T08:00:00.000Z")], "a date that was over does not fire");
    house.push(&source(", '2026-01-04T08:00:00Z'")).await;
    house.now_is("2026-01-10T12:00:00Z");
    house.tick().await;
    house.tick().await;
    let expected = ["2026-01-02T08:00:00.000Z", "2026-01-03T08:00:00.000Z", "2026-01-04T08:00:00.000Z"];
    assert_eq!(house.triggered("date"), expected.map(|date| json!(date)));
    let rows = house.engine.store().schedules(&house.workspace).unwrap();
    assert_eq!(rows[0].next_due, None, "nothing is left");
}
