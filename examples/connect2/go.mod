module github.com/weir-go/weir/examples/connect2

go 1.26.0

require (
	connectrpc.com/connect/v2 v2.0.0
	github.com/weir-go/weir v0.0.0
	github.com/weir-go/weir/connect2mw v0.0.0
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/go-redis/v9 v9.20.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240318140521-94a12d6c2237 // indirect
)

replace (
	github.com/weir-go/weir => ../..
	github.com/weir-go/weir/connect2mw => ../../connect2mw
)
