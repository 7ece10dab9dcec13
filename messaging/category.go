package messaging

// Category classifies a failure; retry, breakers and alarms are decided by it. Zero is unset and refused.
type Category uint8

// The values of Category.
const (
	CategoryTransientInfrastructure Category = iota + 1 // an outage: goes away by itself
	CategoryThrottled                                   // too much at once: slower is enough
	CategoryProcessingTransient                         // a handler failed in a way that may pass
	CategoryPermanentBusiness                           // the business refuses the message
	CategoryPoisonMessage                               // the message breaks whoever handles it
	CategoryDeserialization                             // the payload cannot be decoded
	CategoryAuthentication                              // the broker does not know who asks
	CategoryAuthorization                               // the broker knows, and does not allow it
	CategoryAmbiguous                                   // it cannot be told whether it happened
	CategoryConfiguration                               // a setting or a topology is wrong
	CategoryValidation                                  // the message itself breaks a rule
)

var categoryWords = words{"TRANSIENT_INFRASTRUCTURE", "THROTTLED", "PROCESSING_TRANSIENT", "PERMANENT_BUSINESS", "POISON_MESSAGE", "DESERIALIZATION", "AUTHENTICATION", "AUTHORIZATION", "AMBIGUOUS", "CONFIGURATION", "VALIDATION"}

// ParseCategory reads the contract's word.
func ParseCategory(s string) (Category, error) {
	return parseWord[Category]("failure category", categoryWords, s)
}

// String gives the contract's word, "UNSET" for zero.
func (c Category) String() string { return categoryWords.text(uint8(c)) }

// MarshalText gives the contract's word; zero is an [ErrValidation].
func (c Category) MarshalText() ([]byte, error) {
	return categoryWords.marshal("failure category", uint8(c))
}

// UnmarshalText reads the contract's word.
func (c *Category) UnmarshalText(b []byte) (err error) {
	*c, err = ParseCategory(string(b))
	return err
}
