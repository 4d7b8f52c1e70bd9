// Package faults proves, against real servers, what becomes of limits when Redis
// fails. Each row of docs/RELIABILITY.md is a test here, which logs the figures
// of that row on a line that starts with FAULT:
//
//	WEIR_FULL=1 go test -v -parallel 1 ./internal/proof/faults | grep FAULT
//
// Nothing that these tests assert depends on how fast the machine is; what they
// log does.
package faults

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childVariable); addr != "" {
		os.Exit(child(addr))
	}
	if addr := os.Getenv(siteVariable); addr != "" {
		os.Exit(floodedSite(addr))
	}
	if addr := os.Getenv(holderVariable); addr != "" {
		os.Exit(holdingProcess(addr))
	}
	if addr := os.Getenv(leaseVariable); addr != "" {
		os.Exit(leasingProcess(addr))
	}
	redis.SetLogger(silence{}) // it says that servers are gone, which they are on purpose
	os.Exit(m.Run())
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
