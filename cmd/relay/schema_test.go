package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSchemaCheck(t *testing.T) {
	t.Parallel()
	name := file(t, `messaging:
  environment: local
  catalogue:
    order.created: {kind: INTEGRATION_EVENT, versions: [1, 2], schema: schemas/order.created}
    order.paid: {kind: INTEGRATION_EVENT, versions: [1]}
`)
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(filepath.Dir(name), "schemas", "order.created", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	relay(t, nil, "schema", "check", "--config", name).Want(t, 6, "order.created", "cannot be read")
	for _, v := range []string{"v1", "v2"} {
		write(v+"/schema.json", `{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`)
		write(v+"/valid.json", `{"id":"1"}`)
		write(v+"/invalid/empty.json", `{}`)
	}
	relay(t, nil, "schema", "check", "--config", name).Want(t, 0, "1 of 2 message types have schemas, and all of them hold")
	write("v2/schema.json", `{"type":"object","required":["id","note"],"properties":{"id":{"type":"string"}}}`)
	write("v2/valid.json", `{"id":"1","note":"x"}`)
	r := relay(t, nil, "schema", "check", "--config", name)
	r.Want(t, 6, "note is required, and was not always written", "a consumer of version 2 cannot read what version 1 wrote")
	relay(t, nil, "schema", "check", "--config", name, "-o", "json").Want(t, 6, `"where": "#/required"`)
	relay(t, nil, "schema", "check", "--config", "absent.yaml").Want(t, 3, "no such file")
}
