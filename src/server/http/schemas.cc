#include "server/http/openapi.h"

// The shapes of bodies and answers. Their names are those by which routes name them; a test holds
// real answers against them.

namespace strand::server::http {

namespace {

constexpr std::string_view text = R"json({
  "Anything": {"type": "object"},
  "Error": {
    "type": "object",
    "properties": {
      "error": {
        "type": "object",
        "properties": {
          "code": {"type": "string"}, "message": {"type": "string"},
          "request_id": {"type": "string"}
        },
        "required": ["code", "message", "request_id"], "additionalProperties": false
      }
    },
    "required": ["error"], "additionalProperties": false
  },
  "Status": {
    "type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"],
    "additionalProperties": false
  },
  "Version": {
    "type": "object", "properties": {"name": {"type": "string"}, "version": {"type": "string"}},
    "required": ["name", "version"], "additionalProperties": false
  },
  "Header": {
    "type": "object",
    "properties": {
      "name": {"type": "string"}, "name_base64": {"type": "string", "format": "byte"},
      "value": {"type": "string"}, "value_base64": {"type": "string", "format": "byte"}
    },
    "additionalProperties": false
  },
  "QueueSettings": {
    "type": "object",
    "properties": {
      "max_attempts": {"type": "integer"},
      "backoff_ms": {"type": "array", "items": {"type": "integer"}},
      "backoff_jitter_percent": {"type": "integer"},
      "retry_policy": {"type": "string", "enum": ["block", "skip"]},
      "on_exhausted": {"type": "string", "enum": ["dead", "park"]},
      "ttl_ms": {"type": "integer", "nullable": true},
      "on_expired": {"type": "string", "enum": ["drop", "dead"]},
      "dedup_window_ms": {"type": "integer"}, "lease_ms": {"type": "integer"},
      "starvation_after_ms": {"type": "integer"}, "max_length": {"type": "integer"},
      "dead_notice_to": {
        "type": "object",
        "properties": {
          "queue": {"type": "string"}, "key": {"type": "string", "nullable": true},
          "key_base64": {"type": "string", "format": "byte"}
        },
        "required": ["queue"], "additionalProperties": false, "nullable": true
      }
    },
    "additionalProperties": false, "description": "Durations are milliseconds."
  },
  "QueueStats": {
    "type": "object",
    "properties": {
      "accepted": {"type": "integer"}, "acked": {"type": "integer"},
      "expired": {"type": "integer"}, "dropped": {"type": "integer"},
      "moved": {"type": "integer"}, "purged": {"type": "integer"}, "dead": {"type": "integer"},
      "ready": {"type": "integer"}, "delayed": {"type": "integer"},
      "waiting": {"type": "integer"}, "leased": {"type": "integer"},
      "parked": {"type": "integer"}, "backoff": {"type": "integer"},
      "lanes_ready": {"type": "integer"}, "leases": {"type": "integer"},
      "oldest_ready": {"type": "string", "format": "date-time", "nullable": true}
    },
    "required": [
      "accepted", "acked", "expired", "dropped", "moved", "purged", "dead", "ready", "delayed",
      "waiting", "leased", "parked", "backoff", "lanes_ready", "leases", "oldest_ready"
    ],
    "additionalProperties": false
  },
  "Queue": {
    "type": "object",
    "properties": {
      "name": {"type": "string"}, "paused": {"type": "boolean"},
      "stats": {"$ref": "#/components/schemas/QueueStats"},
      "settings": {"$ref": "#/components/schemas/QueueSettings"}
    },
    "required": ["name", "paused", "stats", "settings"], "additionalProperties": false
  },
  "QueuePage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/Queue"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true}
    },
    "required": ["items", "more", "next"], "additionalProperties": false
  },
  "Changed": {
    "type": "object",
    "properties": {
      "queue": {"type": "string"}, "removed": {"type": "integer"}, "purged": {"type": "integer"},
      "resumed": {"type": "integer"}, "redriven": {"type": "integer"},
      "dropped": {"type": "integer"}
    },
    "required": ["queue"], "additionalProperties": false
  },
  "Paused": {
    "type": "object", "properties": {"queue": {"type": "string"}, "paused": {"type": "boolean"}},
    "required": ["queue", "paused"], "additionalProperties": false
  },
  "Message": {
    "type": "object",
    "properties": {
      "id": {"type": "integer"},
      "headers": {"type": "array", "items": {"$ref": "#/components/schemas/Header"}},
      "priority": {"type": "integer"}, "deliveries": {"type": "integer"},
      "attempts": {"type": "integer"}, "enqueued_at": {"type": "string", "format": "date-time"},
      "due": {"type": "string", "format": "date-time"},
      "expires_at": {"type": "string", "format": "date-time", "nullable": true},
      "label": {"type": "string"},
      "state": {"type": "string", "enum": ["ready", "delayed", "backoff", "waiting", "leased", "parked"]},
      "retry_at": {"type": "string", "format": "date-time", "nullable": true},
      "body": {"type": "string"}, "body_base64": {"type": "string", "format": "byte"},
      "name": {"type": "string", "nullable": true},
      "name_base64": {"type": "string", "format": "byte"},
      "topic": {"type": "string", "nullable": true},
      "topic_base64": {"type": "string", "format": "byte"},
      "key": {"type": "string", "nullable": true},
      "key_base64": {"type": "string", "format": "byte"},
      "last_reason": {"type": "string", "nullable": true},
      "last_reason_base64": {"type": "string", "format": "byte"},
      "park_reason": {"type": "string", "nullable": true},
      "park_reason_base64": {"type": "string", "format": "byte"}
    },
    "required": [
      "id", "headers", "priority", "deliveries", "attempts", "enqueued_at", "due", "expires_at",
      "label", "state", "retry_at"
    ],
    "additionalProperties": false,
    "description": "What is not UTF-8 is shown as base64, under its name with _base64."
  },
  "MessagePage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/Message"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true}
    },
    "required": ["items", "more", "next"], "additionalProperties": false
  },
  "Failure": {
    "type": "object",
    "properties": {
      "at": {"type": "string", "format": "date-time"}, "reason": {"type": "string"},
      "reason_base64": {"type": "string", "format": "byte"}
    },
    "required": ["at"], "additionalProperties": false
  },
  "DeadLetter": {
    "type": "object",
    "properties": {
      "id": {"type": "integer"},
      "headers": {"type": "array", "items": {"$ref": "#/components/schemas/Header"}},
      "priority": {"type": "integer"}, "deliveries": {"type": "integer"},
      "attempts": {"type": "integer"}, "enqueued_at": {"type": "string", "format": "date-time"},
      "due": {"type": "string", "format": "date-time"},
      "expires_at": {"type": "string", "format": "date-time", "nullable": true},
      "queue": {"type": "string"}, "label": {"type": "string"},
      "dead_at": {"type": "string", "format": "date-time"},
      "failures": {"type": "array", "items": {"$ref": "#/components/schemas/Failure"}},
      "body": {"type": "string"}, "body_base64": {"type": "string", "format": "byte"},
      "name": {"type": "string", "nullable": true},
      "name_base64": {"type": "string", "format": "byte"},
      "topic": {"type": "string", "nullable": true},
      "topic_base64": {"type": "string", "format": "byte"},
      "key": {"type": "string", "nullable": true},
      "key_base64": {"type": "string", "format": "byte"}, "reason": {"type": "string"},
      "reason_base64": {"type": "string", "format": "byte"}
    },
    "required": [
      "id", "headers", "priority", "deliveries", "attempts", "enqueued_at", "due", "expires_at",
      "queue", "label", "dead_at", "failures"
    ],
    "additionalProperties": false
  },
  "DeadLetterPage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/DeadLetter"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true}
    },
    "required": ["items", "more", "next"], "additionalProperties": false
  },
  "Redrive": {
    "type": "object",
    "properties": {
      "ids": {"type": "array", "items": {"type": "integer"}}, "all": {"type": "boolean"},
      "to": {"type": "string"}
    },
    "additionalProperties": false, "description": "Either ids, or all."
  },
  "Drop": {
    "type": "object",
    "properties": {"ids": {"type": "array", "items": {"type": "integer"}}, "all": {"type": "boolean"}},
    "additionalProperties": false, "description": "Either ids, or all."
  },
  "Topic": {
    "type": "object",
    "properties": {"name": {"type": "string"}, "retain_ms": {"type": "integer"}},
    "required": ["name", "retain_ms"], "additionalProperties": false
  },
  "TopicPage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/Topic"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true}
    },
    "required": ["items", "more", "next"], "additionalProperties": false
  },
  "TopicSettings": {
    "type": "object", "properties": {"retain_ms": {"type": "integer"}},
    "required": ["retain_ms"], "additionalProperties": false
  },
  "TopicChanged": {
    "type": "object",
    "properties": {
      "topic": {"type": "string"}, "retain_ms": {"type": "integer"},
      "affected": {"type": "integer"}
    },
    "required": ["topic", "retain_ms", "affected"], "additionalProperties": false
  },
  "Subscription": {
    "type": "object", "properties": {"queue": {"type": "string"}, "pattern": {"type": "string"}},
    "required": ["queue", "pattern"], "additionalProperties": false
  },
  "SubscriptionPage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/Subscription"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true}
    },
    "required": ["items", "more", "next"], "additionalProperties": false
  },
  "Subscribe": {
    "type": "object",
    "properties": {"pattern": {"type": "string"}, "from": {"type": "string", "format": "date-time"}},
    "required": ["pattern"], "additionalProperties": false
  },
  "SubscriptionChanged": {
    "type": "object",
    "properties": {
      "queue": {"type": "string"}, "pattern": {"type": "string"},
      "affected": {"type": "integer"}
    },
    "required": ["queue", "affected"], "additionalProperties": false
  },
  "InstanceInfo": {
    "type": "object",
    "properties": {
      "id": {"type": "string"}, "name": {"type": "string"}, "version": {"type": "integer"},
      "state": {
        "type": "string",
        "enum": ["pending", "running", "completed", "failed", "cancelled", "terminated", "timed_out"]
      },
      "execution": {"type": "integer"}, "created_at": {"type": "string", "format": "date-time"},
      "ended_at": {"type": "string", "format": "date-time", "nullable": true},
      "status": {"type": "string"}, "status_base64": {"type": "string", "format": "byte"},
      "parent": {"type": "string", "nullable": true},
      "parent_base64": {"type": "string", "format": "byte"},
      "error": {"type": "string", "nullable": true},
      "error_base64": {"type": "string", "format": "byte"},
      "error_type": {"type": "string", "nullable": true},
      "error_type_base64": {"type": "string", "format": "byte"},
      "parked": {"type": "string", "nullable": true},
      "parked_base64": {"type": "string", "format": "byte"}
    },
    "required": ["id", "name", "version", "state", "execution", "created_at", "ended_at"],
    "additionalProperties": false
  },
  "InstancePage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/InstanceInfo"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true}
    },
    "required": ["items", "more", "next"], "additionalProperties": false
  },
  "Value": {
    "type": "object",
    "properties": {
      "key": {"type": "string"}, "key_base64": {"type": "string", "format": "byte"},
      "value": {"type": "string"}, "value_base64": {"type": "string", "format": "byte"}
    },
    "additionalProperties": false
  },
  "Instance": {
    "type": "object",
    "properties": {
      "id": {"type": "string"}, "name": {"type": "string"}, "version": {"type": "integer"},
      "state": {
        "type": "string",
        "enum": ["pending", "running", "completed", "failed", "cancelled", "terminated", "timed_out"]
      },
      "execution": {"type": "integer"}, "created_at": {"type": "string", "format": "date-time"},
      "ended_at": {"type": "string", "format": "date-time", "nullable": true},
      "values": {"type": "array", "items": {"$ref": "#/components/schemas/Value"}},
      "children": {"type": "array", "items": {"type": "string"}},
      "sagas": {"type": "array", "items": {"$ref": "#/components/schemas/SagaWithSteps"}},
      "status": {"type": "string"}, "status_base64": {"type": "string", "format": "byte"},
      "parent": {"type": "string", "nullable": true},
      "parent_base64": {"type": "string", "format": "byte"},
      "error": {"type": "string", "nullable": true},
      "error_base64": {"type": "string", "format": "byte"},
      "error_type": {"type": "string", "nullable": true},
      "error_type_base64": {"type": "string", "format": "byte"},
      "parked": {"type": "string", "nullable": true},
      "parked_base64": {"type": "string", "format": "byte"}
    },
    "required": [
      "id", "name", "version", "state", "execution", "created_at", "ended_at", "values",
      "children", "sagas"
    ],
    "additionalProperties": false
  },
  "Event": {
    "type": "object",
    "properties": {
      "name": {"type": "string"}, "text": {"type": "string"},
      "value": {"description": "Any value; it is sent as JSON."}
    },
    "required": ["name"], "additionalProperties": false
  },
  "EventSent": {
    "type": "object",
    "properties": {
      "id": {"type": "string"}, "event": {"type": "string"},
      "event_base64": {"type": "string", "format": "byte"}
    },
    "required": ["id"], "additionalProperties": false
  },
  "Reason": {
    "type": "object", "properties": {"reason": {"type": "string"}},
    "additionalProperties": false
  },
  "InstanceChanged": {
    "type": "object",
    "properties": {
      "id": {"type": "string"}, "cancel_requested": {"type": "boolean"},
      "terminated": {"type": "boolean"}, "resumed": {"type": "boolean"}
    },
    "required": ["id"], "additionalProperties": false
  },
  "HistoryEvent": {
    "type": "object",
    "properties": {
      "number": {"type": "integer"}, "kind": {"type": "string"},
      "at": {"type": "string", "format": "date-time"}, "call": {"type": "integer"},
      "details": {"type": "array", "items": {"$ref": "#/components/schemas/Header"}},
      "name": {"type": "string"}, "name_base64": {"type": "string", "format": "byte"},
      "data": {"type": "string"}, "data_base64": {"type": "string", "format": "byte"}
    },
    "required": ["number", "kind", "at", "call", "details"], "additionalProperties": false
  },
  "HistoryPage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/HistoryEvent"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true},
      "execution": {"type": "integer"}, "length": {"type": "integer"}
    },
    "required": ["items", "more", "next", "execution", "length"], "additionalProperties": false
  },
  "Saga": {
    "type": "object",
    "properties": {
      "coordinator": {"type": "string"}, "execution": {"type": "integer"},
      "number": {"type": "integer"},
      "status": {
        "type": "string",
        "enum": ["pending", "in_progress", "completed", "compensating", "failed"]
      },
      "started_at": {"type": "string", "format": "date-time"},
      "ended_at": {"type": "string", "format": "date-time", "nullable": true},
      "name": {"type": "string"}, "name_base64": {"type": "string", "format": "byte"},
      "data": {"type": "string"}, "data_base64": {"type": "string", "format": "byte"},
      "reason": {"type": "string", "nullable": true},
      "reason_base64": {"type": "string", "format": "byte"}
    },
    "required": ["coordinator", "execution", "number", "status", "started_at", "ended_at"],
    "additionalProperties": false
  },
  "SagaPage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/Saga"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true}
    },
    "required": ["items", "more", "next"], "additionalProperties": false
  },
  "SagaStep": {
    "type": "object",
    "properties": {
      "status": {"type": "string", "enum": ["pending", "completed", "failed", "compensated"]},
      "completed_at": {"type": "string", "format": "date-time", "nullable": true},
      "name": {"type": "string"}, "name_base64": {"type": "string", "format": "byte"},
      "agent": {"type": "string"}, "agent_base64": {"type": "string", "format": "byte"},
      "data": {"type": "string"}, "data_base64": {"type": "string", "format": "byte"},
      "compensates": {"type": "string", "nullable": true},
      "compensates_base64": {"type": "string", "format": "byte"},
      "error": {"type": "string", "nullable": true},
      "error_base64": {"type": "string", "format": "byte"}
    },
    "required": ["status", "completed_at"], "additionalProperties": false
  },
  "SagaWithSteps": {
    "type": "object",
    "properties": {
      "coordinator": {"type": "string"}, "execution": {"type": "integer"},
      "number": {"type": "integer"},
      "status": {
        "type": "string",
        "enum": ["pending", "in_progress", "completed", "compensating", "failed"]
      },
      "started_at": {"type": "string", "format": "date-time"},
      "ended_at": {"type": "string", "format": "date-time", "nullable": true},
      "steps": {"type": "array", "items": {"$ref": "#/components/schemas/SagaStep"}},
      "name": {"type": "string"}, "name_base64": {"type": "string", "format": "byte"},
      "data": {"type": "string"}, "data_base64": {"type": "string", "format": "byte"},
      "reason": {"type": "string", "nullable": true},
      "reason_base64": {"type": "string", "format": "byte"}
    },
    "required": ["coordinator", "execution", "number", "status", "started_at", "ended_at", "steps"],
    "additionalProperties": false
  },
  "SagasOfInstance": {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"$ref": "#/components/schemas/SagaWithSteps"}}},
    "required": ["items"], "additionalProperties": false
  },
  "QueueCounts": {
    "type": "object",
    "properties": {
      "name": {"type": "string"}, "paused": {"type": "boolean"},
      "stats": {"$ref": "#/components/schemas/QueueStats"}
    },
    "required": ["name", "paused", "stats"], "additionalProperties": false
  },
  "Stats": {
    "type": "object",
    "properties": {
      "at": {"type": "string", "format": "date-time"},
      "queues": {"type": "array", "items": {"$ref": "#/components/schemas/QueueCounts"}}
    },
    "required": ["at", "queues"], "additionalProperties": false
  },
  "Worker": {
    "type": "object",
    "properties": {
      "heard_at": {"type": "string", "format": "date-time"}, "silent_ms": {"type": "integer"},
      "name": {"type": "string"}, "name_base64": {"type": "string", "format": "byte"}
    },
    "required": ["heard_at", "silent_ms"], "additionalProperties": false
  },
  "Figure": {
    "type": "object",
    "properties": {
      "name": {"type": "string"},
      "kind": {"type": "string", "enum": ["counter", "gauge", "distribution"]},
      "labels": {"type": "object"}, "value": {"type": "number"}, "count": {"type": "integer"},
      "sum": {"type": "number"}
    },
    "required": ["name", "kind", "labels"], "additionalProperties": false
  },
  "WorkerPage": {
    "type": "object",
    "properties": {
      "items": {"type": "array", "items": {"$ref": "#/components/schemas/Worker"}},
      "more": {"type": "boolean"}, "next": {"type": "string", "nullable": true},
      "figures": {"type": "array", "items": {"$ref": "#/components/schemas/Figure"}}
    },
    "required": ["items", "more", "next", "figures"], "additionalProperties": false
  }
})json";

}  // namespace

std::string_view schemas_text() { return text; }

}  // namespace strand::server::http
