// Package schema checks the schemas of a message catalogue: that each compiles, that the golden messages are accepted and
// refused as they stand there, and that each version may follow the one before it under the type's compatibility mode.
//
// Two things are held against each other. The golden messages of old versions are read with the newest schema, and by mode
// new ones with old schemas: that proves what was thought of. The schemas themselves are compared rule by rule: that
// finds what no golden message holds.
package schema
