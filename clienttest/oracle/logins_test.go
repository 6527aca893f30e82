package oracle_test

import (
	"maps"

	"github.com/hirochachacha/go-smb2"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/messages"
)

func init() {
	maps.Copy(vendors, map[string]vendor{
		"kerberos": {clients: []client{
			{"gokrb5", func(s sample) error { return messages.KRBError{ErrorCode: int32(s.number)} }},
			{"gokrb5's client", func(s sample) error {
				return krberror.Errorf(messages.KRBError{ErrorCode: int32(s.number)}, krberror.KDCError, "AS Exchange Error: kerberos error response from KDC")
			}},
		}},
		"krberror": {clients: []client{
			{"gokrb5's client", func(s sample) error { return krberror.New(s.code, "x") }},
		}},
		"ntstatus": {clients: []client{
			{"go-smb2", func(s sample) error { return &smb2.ResponseError{Code: uint32(int32(s.number))} }},
		}},
	})
}
