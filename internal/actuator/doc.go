// Package actuator shows over HTTP how a relay fares: the state of the outbox,
// health, readiness and metrics. It only reads, and it shows counts, states and
// logical names: never a payload, a key, a credential or a physical topic.
package actuator
