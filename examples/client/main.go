// Command client sends the traffic pipeline one request.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/harpagon/harpagon/sdk"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	client, err := sdk.Dial(ctx, "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	frame := sdk.Float32(make([]float32, 3*96*96), 3, 96, 96)
	result, err := client.Infer(ctx, "traffic", sdk.Inputs{"frame": frame})
	if err != nil {
		log.Fatal(err)
	}
	kinds, err := result.Strings("kinds")
	fmt.Println(kinds, err, result.Elapsed())
}
