// Package golden reads golden messages: payloads that stand beside the schemas of a message type and say what every
// version must accept and refuse. The layout is the same for every codec:
//
//	schemas/order.created/v1/schema.json     the schema of version 1
//	schemas/order.created/v1/valid.json      what version 1 accepts; also valid.small.json, valid.full.json …
//	schemas/order.created/v1/invalid/x.json  what version 1 refuses
//	schemas/order.created/v2/…
//	schemas/order.created/invalid/y.json     what every version refuses
package golden

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/backend-skeleton/relay/messaging"
)

// Version is one version of a message type with its golden messages.
type Version struct {
	Number messaging.SchemaVersion
	// Schema is the text of the file named schema, SchemaName its name; empty for none.
	Schema     []byte
	SchemaName string
	// Valid and Invalid are golden messages by the names of their files. Invalid holds those of the whole type too.
	Valid, Invalid map[string][]byte
}

// Read reads the directory of one message type, in ascending order of the versions. An absent directory is
// [fs.ErrNotExist]; files of other names are ignored.
func Read(fsys fs.FS, dir string) ([]Version, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, withoutPath(err)
	}
	always, err := files(fsys, path.Join(dir, "invalid"), "")
	if err != nil {
		return nil, err
	}
	var out []Version
	for _, e := range entries {
		number, isVersion := versionOf(e.Name())
		if !e.IsDir() || !isVersion {
			continue
		}
		v, err := readVersion(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		v.Number = number
		for name, data := range always {
			v.Invalid["../"+name] = data
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Version) int { return int(a.Number) - int(b.Number) })
	return out, nil
}

func versionOf(name string) (messaging.SchemaVersion, bool) {
	digits, ok := strings.CutPrefix(name, "v")
	if !ok {
		return 0, false
	}
	v, err := messaging.ParseSchemaVersion(digits)
	return v, err == nil
}

func readVersion(fsys fs.FS, dir string) (Version, error) {
	v := Version{}
	var err error
	if v.Invalid, err = files(fsys, path.Join(dir, "invalid"), ""); err != nil {
		return v, err
	}
	if v.Valid, err = files(fsys, dir, "valid."); err != nil {
		return v, err
	}
	schemas, err := files(fsys, dir, "schema.")
	if err != nil {
		return v, err
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if v.SchemaName != "" {
			return v, errors.New("there are two schemas in " + path.Base(dir))
		}
		v.SchemaName, v.Schema = name, schemas[name]
	}
	return v, nil
}

// maxFile bounds one file: the hard payload limit.
const maxFile = 8 << 20

// files reads the files of a directory whose names begin with prefix; none for a directory that is not there.
func files(fsys fs.FS, dir, prefix string) (map[string][]byte, error) {
	out := map[string][]byte{}
	entries, err := fs.ReadDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, withoutPath(err)
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, withoutPath(err)
		}
		if info.Size() > maxFile {
			return nil, errors.New(e.Name() + " has more than " + strconv.Itoa(maxFile) + " bytes")
		}
		data, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, withoutPath(err)
		}
		out[e.Name()] = data
	}
	return out, nil
}

// withoutPath keeps what went wrong and drops where on the machine.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return &fs.PathError{Op: p.Op, Path: path.Base(p.Path), Err: p.Err}
	}
	return err
}
