"""`kcoord groups doctor`: problems of groups, with evidence and advice. Everything but `gathering` is pure.

| file        | contains                                                                               |
|-------------|----------------------------------------------------------------------------------------|
| finding     | severities, the codes of all findings, a finding                                       |
| case        | what is known of one group: its observations, and further facts                        |
| examining   | the table of all checks; `examine` runs them                                           |
| members     | members that are idle, differ from the others, or are missing                          |
| assignment  | partitions that nobody owns, shares that are uneven                                    |
| lag         | lag that grows, partitions that nobody commits                                         |
| offsets     | committed offsets that lead nowhere, or soon will                                      |
| rebalances  | rebalances that do not end, or come again and again                                    |
| settings    | time-outs out of proportion: of KIP-848 groups, and in a consumer's config             |
| gathering   | fetches the facts that snapshots do not have from the cluster                          |

The page docs/doctor.md explains each code.
"""
