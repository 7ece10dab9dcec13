package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/outbox"
)

func newOutboxListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List rows", Args: cli.NoArgs,
		Long: `List rows of the outbox that are not published yet, or those of some states. STATUS is CLAIMED while a relay may have the
row on the wire. A row whose AMBIGUOUS column is not 0 may have been delivered already. CODE says why the last try did not
succeed (docs/failure-codes.md). The JSON form has every field.`,
	}
	output := cli.AddOutput(cmd)
	destination := cmd.Flags().String("destination", "", "rows of this destination only")
	statuses := cmd.Flags().StringSlice("status", nil, "rows of these states only: "+strings.Join(stateWords(), ", ")+" (default: all but PUBLISHED)")
	limit := cmd.Flags().Int("limit", 100, fmt.Sprintf("the most rows to list, 1 to %d", outbox.MaxListed))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		states, err := statesOf(*statuses)
		if err != nil {
			return err
		}
		if *limit < 1 || *limit > outbox.MaxListed {
			return cli.Fail(cli.Usage, "--limit must be 1 to %d", outbox.MaxListed)
		}
		return withPool(cmd, func(ctx context.Context, pool *pgxpool.Pool) error {
			listed, err := outbox.New(pool, outbox.Config{}).List(ctx, *destination, states, *limit)
			if err != nil {
				return err
			}
			values, rows := make([]rowOutput, len(listed)), make([][]string, len(listed))
			for i := range listed {
				l := &listed[i]
				values[i] = rowOf(l)
				rows[i] = []string{
					l.MessageID.String(), l.Destination, l.MessageType, string(l.State), strconv.Itoa(l.Attempts),
					strconv.Itoa(l.AmbiguousAttempts), moment(&l.CreatedAt), moment(l.NextAttemptAt), l.Code,
				}
			}
			return output.Print(cmd.OutOrStdout(), values,
				[]string{"MESSAGE ID", "DESTINATION", "TYPE", "STATUS", "ATTEMPTS", "AMBIGUOUS", "CREATED", "NEXT ATTEMPT", "CODE"}, rows)
		})
	}
	return cmd
}

// statesOf reads the flag; without it every state but PUBLISHED, which is the last.
func statesOf(words []string) ([]outbox.State, error) {
	if len(words) == 0 {
		all := outbox.AllStates()
		return all[:len(all)-1], nil
	}
	var out []outbox.State
	for _, w := range words {
		state := outbox.State(strings.ToUpper(w))
		if _, ok := jsonNames[state]; !ok {
			return nil, cli.Fail(cli.Usage, "--status %q is not one of %s", w, strings.Join(stateWords(), ", "))
		}
		out = append(out, state)
	}
	return out, nil
}

// rowOutput is the JSON of a row.
type rowOutput struct {
	MessageID         uuid.UUID `json:"messageId"`
	Destination       string    `json:"destination"`
	MessageType       string    `json:"messageType"`
	Status            string    `json:"status"`
	StoredStatus      string    `json:"storedStatus"`
	CreatedAt         time.Time `json:"createdAt"`
	AvailableAt       time.Time `json:"availableAt"`
	NextAttemptAt     string    `json:"nextAttemptAt,omitempty"`
	PublishedAt       string    `json:"publishedAt,omitempty"`
	LeaseUntil        string    `json:"leaseUntil,omitempty"`
	Attempts          int       `json:"attempts"`
	AmbiguousAttempts int       `json:"ambiguousAttempts"`
	Skipped           bool      `json:"skipped,omitempty"`
	LastOutcome       string    `json:"lastOutcome,omitempty"`
	Category          string    `json:"category,omitempty"`
	Code              string    `json:"code,omitempty"`
	Detail            string    `json:"detail,omitempty"`
}

func rowOf(l *outbox.Listed) rowOutput {
	return rowOutput{
		MessageID: l.MessageID, Destination: l.Destination, MessageType: l.MessageType, Status: string(l.State), StoredStatus: string(l.Stored),
		CreatedAt: l.CreatedAt.UTC(), AvailableAt: l.AvailableAt.UTC(), NextAttemptAt: instantOf(l.NextAttemptAt), PublishedAt: instantOf(l.PublishedAt),
		LeaseUntil: instantOf(l.LeaseUntil), Attempts: l.Attempts, AmbiguousAttempts: l.AmbiguousAttempts, Skipped: l.Skipped,
		LastOutcome: l.LastOutcome, Category: l.Category, Code: l.Code, Detail: l.Detail,
	}
}

// instantOf is RFC 3339 in UTC, with as many digits of the year as it takes: an operator may have written a time beyond
// the year 9999, with which JSON's own form ends.
func instantOf(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
