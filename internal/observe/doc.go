// Package observe turns what happens into metrics and log lines. It is the only
// place that names metrics, and it keeps their cardinality bounded: every label
// value is a word of the contract or a name out of the configuration. Message
// ids, keys, payloads, failure texts and the names of physical topics never get
// in, neither as labels nor into the log.
package observe
