module github.com/weir-go/weir/connect2mw

go 1.26.0

require (
	connectrpc.com/connect/v2 v2.0.0
	github.com/weir-go/weir v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240318140521-94a12d6c2237
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
)

replace github.com/weir-go/weir => ..
