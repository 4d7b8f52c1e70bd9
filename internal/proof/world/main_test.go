package world

import (
	"fmt"
	"os"
	"testing"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// Every world has servers of miniredis.
func TestMain(m *testing.M) {
	if !testrun.MiniredisWorks() {
		fmt.Println("no world is lived through: see testrun.MiniredisWorks")
		return
	}
	os.Exit(m.Run())
}
