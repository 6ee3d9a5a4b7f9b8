package oipgrpc

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// domain marks the details of an error as ours.
const domain = "harpagon"

// Keys of the details.
const (
	stageKey    = "stage"
	reasonKey   = "reason"
	budgetKey   = "budget_ns"
	elapsedKey  = "elapsed_ns"
	startingKey = "starting"
)

// EncodeError makes the status that a server answers with.
func EncodeError(err error) error {
	var e *wire.Error
	if !errors.As(err, &e) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return status.Error(codes.DeadlineExceeded, err.Error())
		case errors.Is(err, context.Canceled):
			return status.Error(codes.Canceled, err.Error())
		}
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	s := status.New(codes.Code(oip.GRPC(e.Code)), text(e.Error()))
	info := &errdetails.ErrorInfo{Reason: string(e.Code), Domain: domain, Metadata: map[string]string{reasonKey: text(e.Reason)}}
	if e.Stage != "" {
		info.Metadata[stageKey] = text(e.Stage)
	}
	if e.Budget != 0 || e.Elapsed != 0 {
		info.Metadata[budgetKey] = strconv.FormatInt(int64(e.Budget), 10)
		info.Metadata[elapsedKey] = strconv.FormatInt(int64(e.Elapsed), 10)
	}
	if e.Starting {
		info.Metadata[startingKey] = strconv.FormatBool(true)
	}
	if detailed, err := s.WithDetails(info); err == nil {
		s = detailed
	}
	return s.Err()
}

// text is a text as messages may have it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// DecodeError makes the typed error whole again. A status without our details
// gets the code nearest to its own and its message as the reason.
func DecodeError(err error) *wire.Error {
	s := status.Convert(err)
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != domain {
			continue
		}
		e := &wire.Error{Code: wire.Code(info.GetReason()), Reason: info.GetMetadata()[reasonKey], Stage: info.GetMetadata()[stageKey]}
		e.Budget, e.Elapsed = nanoseconds(info, budgetKey), nanoseconds(info, elapsedKey)
		e.Starting = info.GetMetadata()[startingKey] != ""
		return e
	}
	return &wire.Error{Code: oip.OfGRPC(uint32(s.Code())), Reason: s.Message()}
}

func nanoseconds(info *errdetails.ErrorInfo, key string) time.Duration {
	n, _ := strconv.ParseInt(info.GetMetadata()[key], 10, 64) // 0 where it is missing
	return time.Duration(n)
}
