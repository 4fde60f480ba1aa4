package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// What was scraped of one metric: a value each minute, from minute 0; null is a scrape that did not have it.
type series struct {
	Labels map[string]string `json:"labels"`
	Values []*float64        `json:"values"`
}

// An alert that fired, and since which minute.
type fired struct {
	Alert  string            `json:"alert"`
	Minute int               `json:"minute"`
	Labels map[string]string `json:"labels"`
}

type sample struct {
	at    int64
	value float64
}

func (s sample) ST() int64                     { return 0 }
func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// The series that matchers select, as a store gives them.
type selected struct {
	series []storage.Series
	at     int
}

func (s *selected) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *selected) At() storage.Series                { return s.series[s.at] }
func (s *selected) Err() error                        { return nil }
func (s *selected) Warnings() annotations.Annotations { return nil }

func minute(number int) time.Time { return time.Unix(int64(number)*60, 0) }

func stored(scraped []series) storage.Queryable {
	var all []storage.Series
	for _, one := range scraped {
		var samples []chunks.Sample
		for number, value := range one.Values {
			if value != nil {
				samples = append(samples, sample{minute(number).UnixMilli(), *value})
			}
		}
		all = append(all, storage.NewListSeries(labels.FromMap(one.Labels), samples))
	}
	slices.SortFunc(all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	find := func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &selected{at: -1}
		for _, one := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Labels().Get(m.Name)) }) {
				found.series = append(found.series, one)
			}
		}
		return found
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: find}}
}

// firing evaluates alerts once a minute, as Prometheus does where evaluation_interval is a minute, and says which fired.
func firing(groups *rulefmt.RuleGroups, scraped []series, minutes int) ([]fired, error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	store, all := stored(scraped), []fired{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			since, has := map[string]int{}, map[string]bool{}
			for number := range minutes {
				query, err := engine.NewInstantQuery(context.Background(), store, nil, rule.Expr, minute(number))
				if err != nil {
					return nil, err
				}
				vector, err := query.Exec(context.Background()).Vector()
				if err != nil {
					return nil, err
				}
				now := map[string]int{}
				for _, one := range vector {
					id := one.Metric.String()
					begun, pending := since[id]
					if !pending {
						begun = number
					}
					now[id] = begun
					if minute(number).Sub(minute(begun)) >= time.Duration(rule.For) && !has[id] {
						has[id] = true
						given := one.Metric.Map()
						maps.Copy(given, rule.Labels)
						all = append(all, fired{rule.Alert, number, given})
					}
				}
				since = now
				query.Close()
			}
		}
	}
	return all, nil
}
