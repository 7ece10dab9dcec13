// Package platform turns relay.yaml into the running publishers of a service.
//
//	p, err := platform.Open(ctx, platform.Options{File: "relay.yaml", Producer: "orders"})
//	created, err := platform.NewPublisher(p, OrderCreated)
//	http.Handle("/", p.Handler())
//	err = p.Run(ctx) // until ctx ends: drain, then close
//
// Everything that is wrong with the file is said at once by Open; what a constructor asks for beyond the file (a type that
// the catalogue does not have, an ability that is not granted) is said by the constructor. In staging and production a
// constructor waits until the broker has proved what the profile demands; elsewhere it goes on without the proof and says
// so in the log.
//
// The package logs with slog, serves its pages as one [net/http.Handler] for any router, starts no goroutine before it is
// asked for something, and keeps no state outside of the [Platform].
package platform
