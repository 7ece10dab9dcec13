package golden

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/backend-skeleton/relay/messaging"
)

// Problem is a golden message that was not treated as it stands there.
type Problem struct {
	Version messaging.SchemaVersion
	// File of the golden message, under its version.
	File string
	// Err is the codec's; nil where an invalid message was accepted.
	Err error
}

// Error names the file and what happened.
func (p *Problem) Error() string {
	if p.Err == nil {
		return fmt.Sprintf("v%d/%s is accepted, and must be refused", p.Version, p.File)
	}
	return fmt.Sprintf("v%d/%s is refused: %v", p.Version, p.File, p.Err)
}

// Unwrap gives the codec's error.
func (p *Problem) Unwrap() error { return p.Err }

// Decode reads every golden message of the versions into a fresh T, as a consumer of the destination does: the valid
// ones must be read, the invalid ones refused. A service's own test calls it with its codec and its Go type; with the
// versions up to d's it proves that the newest consumer reads what old producers wrote.
func Decode[T any](ctx context.Context, c messaging.Codec, d messaging.Destination[T], versions []Version) []*Problem {
	var out []*Problem
	for _, v := range versions {
		for _, name := range slices.Sorted(maps.Keys(v.Valid)) {
			if err := c.Decode(ctx, d.Type, v.Number, nil, v.Valid[name], new(T)); err != nil {
				out = append(out, &Problem{Version: v.Number, File: name, Err: err})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v.Invalid)) {
			if err := c.Decode(ctx, d.Type, v.Number, nil, v.Invalid[name], new(T)); err == nil {
				out = append(out, &Problem{Version: v.Number, File: "invalid/" + name})
			}
		}
	}
	return out
}
