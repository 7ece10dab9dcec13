package cli

import (
	"runtime"
	"runtime/debug"
)

// BuildInfo is what a program knows about itself.
type BuildInfo struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

// Build gives the version that the linker set, else the module's own, else dev.
func Build(version string) BuildInfo {
	b := BuildInfo{Module: "github.com/backend-skeleton/relay", Version: version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Path != "" {
		b.Module = info.Main.Path
	}
	if ok && b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "dev"
	}
	if ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}
