// Package orders is a small order service and its two consumers: an example of a service that sends with the outbox and
// receives with the inbox.
//
// The service moves orders through their steps. Each step is one transaction: the order's row, its history, and the messages,
// by way of package client. "order-events" carries every step, in order for each order; "email-work" asks for one mail per new
// order. The consumers are plain clients of Kafka and RabbitMQ around client.Inbox: they acknowledge a delivery only after the
// transaction of its effect has committed.
package orders
