// Caddy needs many modules, which no other program here does. So this one has a module file of its
// own: see profile.yaml.
//
//go:build ignore

// Caddy is Caddy with the plug-in that limits requests.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-ratelimit"
)

func main() { caddycmd.Main() }
