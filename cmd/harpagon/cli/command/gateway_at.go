package command

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// GatewayAt says where requests go: to a gateway that is named, or to the one
// of the system on the state folder.
type GatewayAt struct {
	state   string
	address string
}

// NewGatewayAt adds the flags that say where a gateway is.
func NewGatewayAt(c *cobra.Command) *GatewayAt {
	g := &GatewayAt{}
	c.Flags().StringVar(&g.state, "state", system.DefaultStateDir, "state `folder` of the running system")
	c.Flags().StringVar(&g.address, "gateway", "", "`address` of the gateway, instead of the one that the state folder names; its token is read from HARPAGON_TOKEN")
	return g
}

// Dial reaches the gateway.
func (g *GatewayAt) Dial(ctx context.Context) (*sdk.Client, error) {
	address := g.address
	if address == "" {
		e, err := system.Folder(g.state).Endpoints()
		if err != nil {
			return nil, err
		}
		address = e.Gateway
	}
	var options []sdk.Option
	if token := os.Getenv("HARPAGON_TOKEN"); token != "" {
		options = append(options, sdk.WithToken(token))
	}
	return sdk.Dial(ctx, address, options...)
}
