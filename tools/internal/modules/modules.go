// Package modules says which modules of this repository users import.
package modules

import "path"

// Root is the path of the root module.
const Root = "github.com/goretry/retry"

// Public are the folders of the modules that users import or run, the root first. All other
// modules of the repository are ours alone.
var Public = []string{".", "clockx/benbjohnson", "otel", "retrygrpc", "retrykafka", "retrynats", "retryredis", "retrysim", "retryvet"}

// Nested are those of Public that require what others have made: all but the root.
var Nested = Public[1:]

// Program is the one of Nested that nobody imports. It requires the root of its own release, so
// it may import what is internal there.
const Program = "retrysim"

// Path returns the path of the module in a folder.
func Path(folder string) string { return path.Join(Root, folder) }
