package world_test

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/proof/world"
)

// A world that breaks a law prints what went wrong in it.
func ExampleSchedule() {
	fmt.Println(world.Schedule{
		{At: time.Second, For: 3 * time.Second, Kind: world.Stopped},
		{At: 5 * time.Second, For: time.Second, Kind: world.StepBack, Server: 1, By: time.Minute},
	})
	// Output:
	// 	1s to 4s: stopped, server 0, process 0
	// 	5s to 6s: step back, server 1, process 0, by 1m0s
}
