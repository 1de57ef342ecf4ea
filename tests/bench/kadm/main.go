// What a small program with franz-go's kadm needs to tell the same of groups as kcoord does.
//
//	kadm names        -bootstrap HOST:PORT          names, one on each line
//	kadm list         -bootstrap HOST:PORT          state, members, topics and total lag of every group
//	kadm describe     -bootstrap HOST:PORT GROUP    one group: its partitions with offset, lag and owner
//	kadm describe-all -bootstrap HOST:PORT          the same of every group
//
// kadm's Lag is for classic groups: it describes, fetches all offsets, and lists where the logs start and end.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const timeout = 2 * time.Minute

type verb func(ctx context.Context, admin *kadm.Client, groups []string, out *bufio.Writer) error

var verbs = map[string]verb{"names": names, "list": list, "describe": describe, "describe-all": describe}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kadm:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 || verbs[arguments[0]] == nil {
		return fmt.Errorf("say names, list, describe or describe-all")
	}
	flags := flag.NewFlagSet("kadm", flag.ExitOnError)
	bootstrap := flags.String("bootstrap", "", "a broker, host:port")
	_ = flags.Parse(arguments[1:]) // ends the process itself
	if (arguments[0] == "describe") != (flags.NArg() > 0) {
		return fmt.Errorf("describe takes groups, and it alone does")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(*bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	if err := verbs[arguments[0]](ctx, kadm.NewClient(client), flags.Args(), out); err != nil {
		return err
	}
	return out.Flush()
}

func names(ctx context.Context, admin *kadm.Client, _ []string, out *bufio.Writer) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	for _, name := range listed.Groups() {
		fmt.Fprintln(out, name)
	}
	return nil
}

func list(ctx context.Context, admin *kadm.Client, _ []string, out *bufio.Writer) error {
	groups, err := lags(ctx, admin, nil)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "GROUP\tSTATE\tPROTOCOL\tMEMBERS\tTOPICS\tLAG\tCOORDINATOR")
	for _, group := range groups {
		protocol := group.ProtocolType
		if group.Protocol != "" {
			protocol += "/" + group.Protocol
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\n", group.Group, group.State, protocol, len(group.Members),
			len(group.Lag), group.Lag.Total(), group.Coordinator.NodeID)
	}
	return table.Flush()
}

func describe(ctx context.Context, admin *kadm.Client, wanted []string, out *bufio.Writer) error {
	groups, err := lags(ctx, admin, wanted)
	if err != nil {
		return err
	}
	for _, group := range groups {
		fmt.Fprintf(out, "%s  %s  %s %s  %d members  coordinator %s:%d (id %d)  lag %d\n", group.Group, group.State,
			group.ProtocolType, group.Protocol, len(group.Members), group.Coordinator.Host, group.Coordinator.Port,
			group.Coordinator.NodeID, group.Lag.Total())
		if err := partitions(out, group.Lag); err != nil {
			return err
		}
	}
	return nil
}

func partitions(out *bufio.Writer, lag kadm.GroupLag) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "TOPIC\tPARTITION\tOFFSET\tLOG-START\tLOG-END\tLAG\tCLIENT-ID\tHOST")
	for _, each := range lag.Sorted() {
		client, host := "-", "-"
		if each.Member != nil {
			client, host = each.Member.ClientID, each.Member.ClientHost
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", each.Topic, each.Partition, each.Commit.At,
			each.Start.Offset, each.End.Offset, each.Lag, client, host)
	}
	return table.Flush()
}

// lags is of all groups if none is named, by name; an error of any of them is one of all.
func lags(ctx context.Context, admin *kadm.Client, groups []string) ([]kadm.DescribedGroupLag, error) {
	found, err := admin.Lag(ctx, groups...)
	if err == nil {
		err = found.Error()
	}
	return found.Sorted(), err
}
