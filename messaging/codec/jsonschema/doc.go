// Package jsonschema validates JSON payloads against the schemas of the message catalogue. It stands apart from the JSON
// codec, so that whoever needs no schemas links no validator.
package jsonschema
