package orders

import "github.com/backend-skeleton/relay/messaging"

// Producer is the logical name of the order service.
const Producer messaging.ProducerID = "order-service"

// Names under which the consumers reserve in the inbox.
const (
	Projection messaging.ConsumerName = "order-projection"
	Mailer     messaging.ConsumerName = "email-sender"
)

// StepTaken is the event of one order: version counts its steps from 1.
type StepTaken struct {
	OrderID string `json:"orderId"`
	Step    Step   `json:"step"`
	Version int    `json:"version"`
}

// MailWanted is the command to send one mail. It names the order, not the customer: addresses stay where they belong.
type MailWanted struct {
	OrderID  string `json:"orderId"`
	Template string `json:"template"`
}

// Events is where steps are announced, in order for each order. Where it lies on which broker is the relay's business.
var Events = messaging.Destination[StepTaken]{Name: "order-events", Type: "order.step-taken", Version: 1}

// Mails is the work queue of the mailer.
var Mails = messaging.Destination[MailWanted]{Name: "email-work", Type: "email.order-confirmation", Version: 1}
