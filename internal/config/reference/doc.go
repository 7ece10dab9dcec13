// Package reference writes what is derived from the types of the configuration: the JSON Schema of relay.yaml and
// docs/configuration.md. Texts are the Go doc comments of the fields; a test holds both files fresh.
package reference
