// Package publishing is a small service that publishes without the outbox, one way per tier: an HTTP handler that
// publishes one message and tells its caller what is known, an import that streams a file with back-pressure, and, under
// a grant, a batch with a verdict per item.
//
//	go run ./examples/publishing/cmd/shop
//	curl -d '{"orderId":"o-1","cents":1250}' http://127.0.0.1:8085/orders
package publishing
