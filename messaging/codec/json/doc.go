// Package json is the default codec: JSON with limits on size and depth, a
// policy for unknown fields, and no duplicate keys, also not in another case where
// both mean one field. What it writes it can read
// back, since it checks its own output by the same rules.
//
// No error quotes the payload: texts of the standard decoder that do are
// replaced by fixed ones.
package json
