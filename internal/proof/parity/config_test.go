package parity

import (
	"reflect"
	"testing"

	"github.com/weir-go/weir/internal/http/gate"
)

func TestTheGateReadsEveryFieldOfItsConfig(t *testing.T) {
	read, _ := usesOf(t, "../../http/gate/gate.go")
	for _, field := range fieldsOf(reflect.TypeFor[gate.Config[int]]()) {
		if !read[field] {
			t.Errorf("gate.New does not read gate.Config.%s", field)
		}
	}
}
