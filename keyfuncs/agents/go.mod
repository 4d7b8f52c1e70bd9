module github.com/weir-go/weir/keyfuncs/agents

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/dunglas/httpsfv v1.1.2
	github.com/redis/go-redis/v9 v9.20.0
	github.com/weir-go/weir v0.0.0
	golang.org/x/net v0.60.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

replace github.com/weir-go/weir => ../..
