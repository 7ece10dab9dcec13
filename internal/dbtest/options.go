package dbtest

// Option changes what New makes.
type Option func(*options)

type options struct {
	major       int
	url         string
	ownDatabase bool
	empty       bool
	maxConns    int32
}

// Major chooses the server's major version: 16, 17 (the default) or 18.
func Major(major int) Option { return func(o *options) { o.major = major } }

// Server uses the server at this address instead of one from the environment, for a test that started its own. The
// address is that of a superuser.
func Server(url string) Option { return func(o *options) { o.url = url } }

// OwnDatabase makes a database instead of a schema, for tests that change settings of the database, need extensions, or
// count its sessions. It costs about 100 ms more than a schema.
func OwnDatabase() Option { return func(o *options) { o.ownDatabase = true } }

// Empty leaves the migrations out.
func Empty() Option { return func(o *options) { o.empty = true } }

// MaxConns limits the pool of the test itself; default 8. Other processes and pools on URL are not bound by it.
func MaxConns(n int32) Option { return func(o *options) { o.maxConns = n } }
