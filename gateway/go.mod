module github.com/weir-go/weir/gateway

go 1.26.0

require github.com/weir-go/weir v0.0.0

replace github.com/weir-go/weir => ..
