package publishing

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
)

// Service publishes orders.
type Service struct {
	orders messaging.Publisher[OrderPlaced]
	batch  messaging.BatchPublisher[OrderPlaced]
}

// New makes the service over an opened platform. What the file does not grant, or the broker cannot do, is said here.
func New(p *platform.Platform) (*Service, error) {
	orders, err := platform.NewPublisher(p, Orders)
	if err != nil {
		return nil, err
	}
	batch, err := platform.NewBatchPublisher(p, Orders)
	if err != nil {
		return nil, err
	}
	return &Service{orders: orders, batch: batch}, nil
}

// Place is POST /orders. The status tells the caller what is known: 202 stored, 400 or 503 not stored, 504 perhaps
// stored: the caller may ask again and sends the id that the header names, so that the message is the same one.
func (s *Service) Place(w http.ResponseWriter, r *http.Request) {
	var o OrderPlaced
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o); err != nil {
		http.Error(w, "the body is no order", http.StatusBadRequest)
		return
	}
	e := envelope(o)
	if again := r.Header.Get("Message-Id"); again != "" {
		id, err := messaging.ParseMessageID(again)
		if err != nil {
			http.Error(w, "the message id is none", http.StatusBadRequest)
			return
		}
		e.ID = id
	}
	w.Header().Set("Message-Id", e.ID.String())
	_, err := s.orders.Publish(r.Context(), e, nil)
	http.Error(w, text(err), status(err))
}

// status is what an HTTP caller should make of a verdict.
func status(err error) int {
	switch {
	case err == nil, errors.Is(err, messaging.ErrConfiguration) && !errors.Is(err, messaging.ErrPublishRejected):
		return http.StatusAccepted // stored; in the second case below the level of the profile
	case errors.Is(err, messaging.ErrPublishAmbiguous):
		return http.StatusGatewayTimeout
	case errors.Is(err, messaging.ErrValidation), errors.Is(err, messaging.ErrTooLarge), errors.Is(err, messaging.ErrSchemaIncompatible):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func text(err error) string {
	if err == nil {
		return "stored"
	}
	return err.Error() // it quotes no value
}

// Import publishes a file of orders, one JSON object a line. The file is read as fast as the broker confirms. It gives how
// many are stored, and stops at the first that is not.
func (s *Service) Import(ctx context.Context, file io.Reader) (stored int, err error) {
	var broken error
	for _, err := range s.orders.PublishSeq(ctx, orders(file, &broken), nil) {
		if err != nil {
			return stored, fmt.Errorf("order %d: %w", stored+1, err)
		}
		stored++
	}
	return stored, broken
}

// orders reads a file line by line; what ends it before its end goes to err.
func orders(file io.Reader, err *error) iter.Seq[messaging.Envelope[OrderPlaced]] {
	return func(yield func(messaging.Envelope[OrderPlaced]) bool) {
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			var o OrderPlaced
			if *err = json.Unmarshal(lines.Bytes(), &o); *err != nil {
				return
			}
			if !yield(envelope(o)) {
				return
			}
		}
		*err = lines.Err()
	}
}

// PlaceAll publishes some orders in one call and gives those that are not stored; what may be stored is among the
// ambiguous. Both go again under the ids that they have.
func (s *Service) PlaceAll(ctx context.Context, all []OrderPlaced) (rejected, ambiguous []messaging.Envelope[OrderPlaced]) {
	es := make([]messaging.Envelope[OrderPlaced], len(all))
	for i, o := range all {
		es[i] = envelope(o)
	}
	results, _ := s.batch.PublishBatch(ctx, es, nil) // the results say it per index
	for i, r := range results {
		switch r.Completion {
		case messaging.Rejected:
			rejected = append(rejected, es[i])
		case messaging.Ambiguous:
			ambiguous = append(ambiguous, es[i])
		}
	}
	return rejected, ambiguous
}
