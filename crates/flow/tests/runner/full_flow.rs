//! One flow with nearly everything, and the IR it gives.

use crate::accept;
use semel_core::FlowRef;

#[test]
fn a_full_flow() {
    let compiled = accept(include_str!("full.yaml"));
    let refs: Vec<_> = compiled.subflow_refs.iter().map(|(target, span)| (target.clone(), span.line)).collect();
    assert_eq!(refs, [(FlowRef::new("shop.stock", "ship"), 89)]);
    let json = serde_json::to_string_pretty(&compiled.flow).expect("the IR is JSON");
    insta::assert_snapshot!(json, @r#"
    {
      "ir_version": 1,
      "id": "order_intake",
      "namespace": "shop.orders",
      "description": "Takes an order once, charges it, tells the warehouse.",
      "labels": {
        "team": "orders",
        "system.readOnly": "true"
      },
      "inputs": [
        {
          "id": "order",
          "type": "STRING",
          "required": true,
          "validator": "[A-Z]{3}-[0-9]+",
          "allow_custom_value": false
        },
        {
          "id": "amount",
          "type": "FLOAT",
          "required": true,
          "defaults": 1,
          "min": 0.01,
          "allow_custom_value": false
        },
        {
          "id": "speed",
          "type": "SELECT",
          "required": true,
          "defaults": "slow",
          "values": [
            "slow",
            "fast"
          ],
          "allow_custom_value": false
        },
        {
          "id": "notify",
          "type": "BOOL",
          "required": false,
          "allow_custom_value": false
        }
      ],
      "variables": {
        "who": "{{ trigger.body.customer ?? 'unknown' }}",
        "retries": 3
      },
      "tasks": [
        {
          "id": "charge",
          "type": "http.Request",
          "written_type": "io.kestra.plugin.core.http.Request",
          "kind": {
            "kind": "leaf",
            "mode": "effect",
            "config": {
              "uri": "https://pay.example/charges",
              "method": "POST",
              "headers": {
                "X-Version": "1.10"
              },
              "body": {
                "order": "{{ inputs.order }}",
                "amount": "{{ inputs.amount }}",
                "live": true
              },
              "options": {
                "timeout": "PT20S",
                "allowFailed": false,
                "auth": {
                  "type": "BEARER",
                  "token": "{{ secret('PAY') }}"
                }
              }
            }
          },
          "retry": {
            "schedule": {
              "type": "exponential",
              "interval_ms": 1000,
              "max_interval_ms": 30000,
              "factor": 2.0
            },
            "max_attempts": 5,
            "max_duration_ms": null,
            "warning_on_retry": true
          },
          "timeout_ms": 30000,
          "disabled": false,
          "allow_failure": false,
          "allow_warning": false,
          "effect": {
            "class": "keyed",
            "window_ms": 43200000,
            "key": "{{ inputs.order }}",
            "on_doubt": "fail"
          },
          "keep_output": true
        },
        {
          "id": "route",
          "type": "flow.Switch",
          "kind": {
            "kind": "switch",
            "value": "{{ inputs.speed }}",
            "cases": {
              "fast": [
                {
                  "id": "hurry",
                  "type": "log.Log",
                  "kind": {
                    "kind": "leaf",
                    "mode": "inline",
                    "config": {
                      "message": [
                        "charged {{ outputs.charge.code }}",
                        "go"
                      ],
                      "level": "WARN"
                    }
                  },
                  "disabled": false,
                  "allow_failure": false,
                  "allow_warning": false,
                  "effect": {
                    "class": null,
                    "window_ms": null,
                    "key": null,
                    "on_doubt": "hold"
                  },
                  "keep_output": false
                }
              ]
            },
            "defaults": [
              {
                "id": "rest",
                "type": "flow.Sleep",
                "kind": {
                  "kind": "sleep",
                  "duration": "PT1H"
                },
                "disabled": false,
                "allow_failure": false,
                "allow_warning": false,
                "effect": {
                  "class": null,
                  "window_ms": null,
                  "key": null,
                  "on_doubt": "hold"
                },
                "keep_output": false
              }
            ],
            "errors": [],
            "finally": []
          },
          "disabled": false,
          "allow_failure": false,
          "allow_warning": false,
          "effect": {
            "class": null,
            "window_ms": null,
            "key": null,
            "on_doubt": "hold"
          },
          "keep_output": false
        },
        {
          "id": "each",
          "type": "flow.ForEach",
          "kind": {
            "kind": "for_each",
            "values": "[\"a\", \"b\"]",
            "concurrent": 2,
            "tasks": [
              {
                "id": "both",
                "type": "flow.Parallel",
                "kind": {
                  "kind": "parallel",
                  "concurrent": 0,
                  "tasks": [
                    {
                      "id": "say",
                      "type": "debug.Return",
                      "kind": {
                        "kind": "leaf",
                        "mode": "inline",
                        "config": {
                          "format": "{{ taskrun.value }}"
                        }
                      },
                      "disabled": false,
                      "allow_failure": false,
                      "allow_warning": false,
                      "effect": {
                        "class": null,
                        "window_ms": null,
                        "key": null,
                        "on_doubt": "hold"
                      },
                      "keep_output": false
                    },
                    {
                      "id": "maybe",
                      "type": "flow.If",
                      "written_type": "io.kestra.core.tasks.flows.If",
                      "kind": {
                        "kind": "if",
                        "condition": "{{ taskrun.value == 'a' }}",
                        "then": [
                          {
                            "id": "yes_a",
                            "type": "log.Log",
                            "kind": {
                              "kind": "leaf",
                              "mode": "inline",
                              "config": {
                                "message": "a"
                              }
                            },
                            "disabled": false,
                            "allow_failure": false,
                            "allow_warning": false,
                            "effect": {
                              "class": null,
                              "window_ms": null,
                              "key": null,
                              "on_doubt": "hold"
                            },
                            "keep_output": false
                          }
                        ],
                        "otherwise": [
                          {
                            "id": "not_a",
                            "type": "log.Log",
                            "kind": {
                              "kind": "leaf",
                              "mode": "inline",
                              "config": {
                                "message": "other"
                              }
                            },
                            "disabled": false,
                            "allow_failure": false,
                            "allow_warning": false,
                            "effect": {
                              "class": null,
                              "window_ms": null,
                              "key": null,
                              "on_doubt": "hold"
                            },
                            "keep_output": false
                          }
                        ],
                        "errors": [],
                        "finally": []
                      },
                      "disabled": false,
                      "allow_failure": false,
                      "allow_warning": false,
                      "effect": {
                        "class": null,
                        "window_ms": null,
                        "key": null,
                        "on_doubt": "hold"
                      },
                      "keep_output": false
                    }
                  ],
                  "errors": [],
                  "finally": []
                },
                "disabled": false,
                "allow_failure": false,
                "allow_warning": false,
                "effect": {
                  "class": null,
                  "window_ms": null,
                  "key": null,
                  "on_doubt": "hold"
                },
                "keep_output": false
              }
            ],
            "errors": [],
            "finally": []
          },
          "disabled": false,
          "allow_failure": false,
          "allow_warning": false,
          "effect": {
            "class": null,
            "window_ms": null,
            "key": null,
            "on_doubt": "hold"
          },
          "keep_output": false
        },
        {
          "id": "ship",
          "type": "flow.Subflow",
          "kind": {
            "kind": "subflow",
            "namespace": "shop.stock",
            "flow_id": "ship",
            "revision": null,
            "inputs": {
              "order": "{{ inputs.order }}"
            },
            "labels": {
              "origin": "intake"
            },
            "inherit_labels": false,
            "wait": false,
            "transmit_failed": true,
            "key": "ship-{{ inputs.order }}"
          },
          "run_if": "{{ inputs.notify }}",
          "disabled": false,
          "allow_failure": true,
          "allow_warning": false,
          "effect": {
            "class": null,
            "window_ms": null,
            "key": null,
            "on_doubt": "hold"
          },
          "keep_output": false
        }
      ],
      "errors": [
        {
          "id": "alarm",
          "type": "log.Log",
          "kind": {
            "kind": "leaf",
            "mode": "inline",
            "config": {
              "message": "failed: {{ errorLogs() }}"
            }
          },
          "disabled": false,
          "allow_failure": false,
          "allow_warning": false,
          "effect": {
            "class": null,
            "window_ms": null,
            "key": null,
            "on_doubt": "hold"
          },
          "keep_output": false
        }
      ],
      "finally": [
        {
          "id": "done",
          "type": "log.Log",
          "kind": {
            "kind": "leaf",
            "mode": "inline",
            "config": {
              "message": "done"
            }
          },
          "disabled": false,
          "allow_failure": false,
          "allow_warning": false,
          "effect": {
            "class": null,
            "window_ms": null,
            "key": null,
            "on_doubt": "hold"
          },
          "keep_output": false
        }
      ],
      "outputs": [
        {
          "id": "code",
          "type": "INT",
          "value": "{{ outputs.charge.code }}"
        }
      ],
      "triggers": [
        {
          "id": "hook",
          "disabled": false,
          "inputs": {
            "order": "{{ trigger.body.order }}"
          },
          "labels": {},
          "kind": {
            "kind": "webhook",
            "key": "{{ secret('HOOK') }}",
            "wait": true,
            "return_outputs": true,
            "signature": {
              "scheme": "hmac_sha256",
              "secrets": [
                "{{ secret('A') }}",
                "{{ secret('B') }}"
              ],
              "header": "X-Signature",
              "tolerance_ms": 300000
            }
          }
        },
        {
          "id": "nightly",
          "disabled": true,
          "inputs": {
            "order": "ABC-1"
          },
          "labels": {},
          "kind": {
            "kind": "schedule",
            "cron": "0 2 * * *",
            "timezone": "Europe/Berlin",
            "with_seconds": false,
            "recover": "LAST",
            "late_max_ms": 3600000
          }
        }
      ],
      "lane": {
        "key": "{{ vars.who }}",
        "limit": 1,
        "busy": {
          "queue": {
            "max": 10
          }
        }
      },
      "retry": {
        "schedule": {
          "type": "random",
          "min_interval_ms": 1000,
          "max_interval_ms": 10000
        },
        "max_attempts": 3,
        "max_duration_ms": null,
        "warning_on_retry": false,
        "new_execution": true
      },
      "disabled": false,
      "idempotency": {
        "key": "{{ inputs.order }}",
        "scope": {
          "group": "orders"
        },
        "preset": "ietf",
        "live": "attach",
        "done": null,
        "failed": null,
        "cancelled": null,
        "mismatch": null,
        "window": {
          "for": {
            "from": "first_seen",
            "duration_ms": 86400000
          }
        },
        "late": null,
        "require_key": false,
        "doors": [
          "webhook",
          "start_task"
        ],
        "strict": true,
        "expire_live": false
      }
    }
    "#);
}
