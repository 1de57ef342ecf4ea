"""`kcoord groups doctor`: what is wrong with groups, with evidence and advice. Pure but for `gathering`.

| file        | tells                                                                                  |
|-------------|----------------------------------------------------------------------------------------|
| finding     | severities, the codes of all findings, a finding                                       |
| case        | what is known of one group: how it was seen, and the facts besides                     |
| examining   | the table of all checks; `examine` runs them                                           |
| members     | members that are idle, differ from the others, or are missing                          |
| assignment  | partitions that nobody owns, shares that are uneven                                    |
| lag         | lag that grows, partitions that nobody commits                                         |
| offsets     | committed offsets that lead nowhere, or soon will                                      |
| rebalances  | rebalances that do not end, or come again and again                                    |
| settings    | time-outs out of proportion: of KIP-848 groups, and in a consumer's config             |
| gathering   | asks the cluster for the facts that looks do not have                                  |

The page docs/doctor.md explains each code.
"""
