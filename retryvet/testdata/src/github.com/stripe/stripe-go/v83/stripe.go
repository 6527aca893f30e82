// Package stripe stands in for the real one.
package stripe

import "context"

type Params struct{ IdempotencyKey *string }

func (p *Params) SetIdempotencyKey(key string) { p.IdempotencyKey = &key }

type ListParams struct{ Limit *int64 }

type CustomerCreateParams struct {
	Params
	Name *string
}

type CustomerRetrieveParams struct{ Params }

type CustomerDeleteParams struct{ Params }

type CustomerListParams struct{ ListParams }

type Customer struct{}

type Customers struct{}

func (Customers) Create(context.Context, *CustomerCreateParams) (*Customer, error) {
	return nil, nil
}

func (Customers) Retrieve(context.Context, string, *CustomerRetrieveParams) (*Customer, error) {
	return nil, nil
}

func (Customers) Delete(context.Context, string, *CustomerDeleteParams) (*Customer, error) {
	return nil, nil
}

func (Customers) List(context.Context, *CustomerListParams) (*Customer, error) { return nil, nil }

func (Customers) New(*CustomerCreateParams) (*Customer, error) { return nil, nil }
