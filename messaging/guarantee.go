package messaging

// Ordering is the scope in which a destination keeps order. Zero is unset and refused.
type Ordering uint8

// The values of Ordering.
const (
	OrderingNone        Ordering = iota + 1
	OrderingDestination          // one order for the whole destination
	OrderingPartition            // the order in which the broker stored a partition
	OrderingKey                  // the order of each ordering key, through retries and restarts
)

var orderingWords = words{"NONE", "DESTINATION", "PARTITION", "KEY"}

// ParseOrdering reads the contract's word.
func ParseOrdering(s string) (Ordering, error) {
	return parseWord[Ordering]("ordering", orderingWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (o Ordering) String() string { return orderingWords.text(uint8(o)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (o Ordering) MarshalText() ([]byte, error) {
	return orderingWords.marshal("ordering", uint8(o))
}

// UnmarshalText reads the contract's word.
func (o *Ordering) UnmarshalText(b []byte) (err error) {
	*o, err = ParseOrdering(string(b))
	return err
}

// DeliveryGuarantee is what a destination promises about delivery. Zero is unset and refused.
type DeliveryGuarantee uint8

// The values of DeliveryGuarantee.
const (
	AtMostOnce  DeliveryGuarantee = iota + 1 // settled before the handler runs: may be lost, never repeated
	AtLeastOnce                              // settled after the handler succeeded: may be repeated, never lost
)

var deliveryWords = words{"AT_MOST_ONCE", "AT_LEAST_ONCE"}

// ParseDeliveryGuarantee reads the contract's word.
func ParseDeliveryGuarantee(s string) (DeliveryGuarantee, error) {
	return parseWord[DeliveryGuarantee]("delivery guarantee", deliveryWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (d DeliveryGuarantee) String() string { return deliveryWords.text(uint8(d)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (d DeliveryGuarantee) MarshalText() ([]byte, error) {
	return deliveryWords.marshal("delivery guarantee", uint8(d))
}

// UnmarshalText reads the contract's word.
func (d *DeliveryGuarantee) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDeliveryGuarantee(string(b))
	return err
}

// ProcessingGuarantee is what makes a repeated delivery harmless. Zero is unset and refused.
type ProcessingGuarantee uint8

// The values of ProcessingGuarantee.
const (
	ApplicationIdempotent ProcessingGuarantee = iota + 1
	BrokerTransactional                       // covers only what the broker's transaction covers
)

var processingWords = words{"APPLICATION_IDEMPOTENT", "BROKER_TRANSACTIONAL"}

// ParseProcessingGuarantee reads the contract's word.
func ParseProcessingGuarantee(s string) (ProcessingGuarantee, error) {
	return parseWord[ProcessingGuarantee]("processing guarantee", processingWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (p ProcessingGuarantee) String() string { return processingWords.text(uint8(p)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (p ProcessingGuarantee) MarshalText() ([]byte, error) {
	return processingWords.marshal("processing guarantee", uint8(p))
}

// UnmarshalText reads the contract's word.
func (p *ProcessingGuarantee) UnmarshalText(b []byte) (err error) {
	*p, err = ParseProcessingGuarantee(string(b))
	return err
}

// SideEffect is how a consumer protects what it does outside of the broker. Zero is unset and refused.
type SideEffect uint8

// The values of SideEffect.
const (
	SideEffectNone SideEffect = iota + 1
	SideEffectIdempotencyRequired
	SideEffectInboxTransactional // the inbox reservation and the effect commit together
)

var sideEffectWords = words{"NONE", "IDEMPOTENCY_REQUIRED", "INBOX_TRANSACTIONAL"}

// ParseSideEffect reads the contract's word.
func ParseSideEffect(s string) (SideEffect, error) {
	return parseWord[SideEffect]("external side effect", sideEffectWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (s SideEffect) String() string { return sideEffectWords.text(uint8(s)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (s SideEffect) MarshalText() ([]byte, error) {
	return sideEffectWords.marshal("external side effect", uint8(s))
}

// UnmarshalText reads the contract's word.
func (s *SideEffect) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSideEffect(string(b))
	return err
}
