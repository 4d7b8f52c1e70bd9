package remote_test

import (
	"errors"
)

var errBroken = errors.New("broken")
