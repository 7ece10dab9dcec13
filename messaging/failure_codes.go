package messaging

// Failure codes. They are stored, counted and parsed by other languages: a code
// is never renamed. docs/failure-codes.md explains each.
const (
	// The message itself is refused.

	CodeTooLarge          = "TOO_LARGE"            // the record alone is over a limit of client, topic or broker
	CodeHeaderRejected    = "HEADER_REJECTED"      // a header or property cannot be encoded
	CodeRoutingKeyTooLong = "ROUTING_KEY_TOO_LONG" // a RabbitMQ routing key of more than 255 bytes
	CodeRecordRefused     = "RECORD_REFUSED"       // the broker refuses this record for its form
	CodeInvalidMessage    = "INVALID_MESSAGE"      // a required field is missing or breaks a limit
	CodeSerialization     = "SERIALIZATION_FAILED" // the payload cannot be encoded
	CodeTenantNotAllowed  = "TENANT_NOT_ALLOWED"   // the tenant is not in the allow-list

	// The call asks for what is not there.

	CodeCapabilityUnavailable = "CAPABILITY_UNAVAILABLE" // the destination's broker cannot do it, or it is not granted
	CodeProofLost             = "PROOF_LOST"             // the broker proved less than the profile requires; it is asked again

	// The broker refuses for now.

	CodeUnroutable           = "UNROUTABLE"             // returned: no queue is bound for it
	CodeNacked               = "NACKED"                 // basic.nack
	CodeNotEnoughReplicas    = "NOT_ENOUGH_REPLICAS"    // refused before the append
	CodeThrottled            = "THROTTLED"              // refused by a quota
	CodeBackpressure         = "BACKPRESSURE"           // the local buffer stayed full, or the broker blocked the connection
	CodeBrokerUnreachable    = "BROKER_UNREACHABLE"     // nothing of the record was written
	CodeNotSent              = "NOT_SENT"               // the context ended before anything was written
	CodePredecessorNotStored = "PREDECESSOR_NOT_STORED" // an earlier message of the key in the same call was not stored
	CodeProducerSessionLost  = "PRODUCER_SESSION_LOST"  // fenced or session lost, known not stored
	CodeClosed               = "CLOSED"                 // the adapter is closed

	// The destination is refused.

	CodeNotAuthorized        = "NOT_AUTHORIZED"        // no right to write
	CodeUnknownTopic         = "UNKNOWN_TOPIC"         // the topic does not exist
	CodeUnknownExchange      = "UNKNOWN_EXCHANGE"      // the exchange does not exist
	CodeBrokerConfiguration  = "BROKER_CONFIGURATION"  // another refusal of the broker's configuration
	CodeAuthenticationFailed = "AUTHENTICATION_FAILED" // wrong password, certificate refused

	// It cannot be told.

	CodeConfirmTimeout = "CONFIRM_TIMEOUT" // no answer in time
	CodeConnectionLost = "CONNECTION_LOST" // the connection ended after bytes may have left
	CodeChannelClosed  = "CHANNEL_CLOSED"  // a channel exception of another publish, while unconfirmed
	CodeUnknownOutcome = "UNKNOWN_OUTCOME" // anything else that cannot be told

	// The relay's own.

	CodeRelayLost          = "RELAY_LOST"            // a relay died with the row in its window
	CodeUnknownDestination = "UNKNOWN_DESTINATION"   // no relay's configuration names the destination
	CodeUnserved           = "UNSERVED"              // redriven while no running relay serves the destination
	CodeKeylessOnKey       = "KEYLESS_ON_KEY"        // a row without key on a destination ordered by key
	CodeTypeNotInCatalogue = "TYPE_NOT_IN_CATALOGUE" // the message type is not in the catalogue
	CodeAbandoned          = "ABANDONED"             // the relay gave up waiting for the adapter's answer
	CodeLeaseEnded         = "LEASE_ENDED"           // not sent: the lease was over

	// The payload cannot be decoded.

	CodeMalformedPayload = "MALFORMED_PAYLOAD" // not of the content type's form, or not of the Go type
	CodeDuplicateKey     = "DUPLICATE_KEY"     // a JSON object names a key twice
	CodeUnknownField     = "UNKNOWN_FIELD"     // a field that the Go type lacks, where the policy refuses it
	CodePayloadTooDeep   = "PAYLOAD_TOO_DEEP"  // nested deeper than the limit
	CodeSchemaViolation  = "SCHEMA_VIOLATION"  // the payload breaks the schema of its type and version
	CodeSchemaUnknown    = "SCHEMA_UNKNOWN"    // there is no schema of this type and version

	// Consuming.

	CodeNoVerdict         = "NO_VERDICT"           // the handler returned the zero result
	CodeHandlerFailed     = "HANDLER_FAILED"       // the handler returned an error without a failure
	CodeRejectNotAllowed  = "REJECT_NOT_ALLOWED"   // reject where delivery is not at most once
	CodeIntegrityMismatch = "INTEGRITY_MISMATCH"   // the id was seen with another payload
	CodeInboxBusy         = "INBOX_BUSY"           // another try of the message is still open
	CodeCommitUnknown     = "COMMIT_UNKNOWN"       // COMMIT got no answer
	CodeDatabase          = "DATABASE_UNAVAILABLE" // the consumer's database cannot be reached
	CodeHandlerPanicked   = "HANDLER_PANICKED"     // a panic, or a goroutine that ended itself
	CodeHandlerTimeout    = "HANDLER_TIMEOUT"      // the handler's time was over, and it gave no success
	CodeUnfinished        = "UNFINISHED"           // a batch's answer does not name the item, or not in a way that counts

	// A delivery that is no message for a handler.

	CodeForeignMessage         = "FOREIGN_MESSAGE"          // no valid msg.id and msg.type
	CodeUnknownType            = "UNKNOWN_TYPE"             // the message type is not in the catalogue
	CodeUnhandledType          = "UNHANDLED_TYPE"           // in the catalogue, and the consumer has no handler for it
	CodeSchemaVersionUnknown   = "SCHEMA_VERSION_UNKNOWN"   // the catalogue does not have the version
	CodeUnsupportedContentType = "UNSUPPORTED_CONTENT_TYPE" // no codec is registered for it
	CodeInvalidHeader          = "INVALID_HEADER"           // a header of the msg. family is missing or malformed
	CodeClaimCheckUnavailable  = "CLAIM_CHECK_UNAVAILABLE"  // the payload lies in an object store that is not configured
	CodeChecksumMismatch       = "CHECKSUM_MISMATCH"        // the object is not the one that was stored
	CodeObjectGone             = "OBJECT_GONE"              // the object is not there any more
)
