package config

// inbox holds how long the inbox remembers against how late a message may come back: what is forgotten too early is
// applied a second time.
func (k *checker) inbox() {
	if !k.remembers() {
		return
	}
	box := k.c.Inbox
	if box.AssumedBrokerRetention == nil {
		if k.c.Messaging.Environment == Production {
			k.find("inbox.assumed-broker-retention", "is missing; an INBOX_TRANSACTIONAL consumer in production says how long its broker may keep a message")
		}
		return
	}
	w := box.Windows
	need := *box.AssumedBrokerRetention + orDefault(w.DLQ, 0) + max(orDefault(w.Replay, 0), orDefault(w.Redrive, 0)) + orDefault(w.Margin, 0)
	if box.Retention >= need {
		return
	}
	const text = "%s is less than %s, how late a message may come back: assumed-broker-retention, windows.dlq, the longer one of windows.replay and windows.redrive, and windows.margin"
	if k.guarded() {
		k.find("inbox.retention", text, box.Retention, need)
	} else {
		k.warn("inbox.retention", text, box.Retention, need)
	}
}

// remembers tells whether a consumer relies on the inbox.
func (k *checker) remembers() bool {
	for _, consumer := range k.c.Messaging.Consumers {
		if consumer.ExternalSideEffect == InboxTransactional {
			return true
		}
	}
	return false
}
